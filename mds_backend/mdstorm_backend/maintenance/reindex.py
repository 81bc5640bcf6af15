"""Rebuild a lost index from the shards."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from mdstorm_backend import errors
from mdstorm_backend.base.pools import each
from mdstorm_backend.display import Progress, progress
from mdstorm_backend.format import Schema, compression, layout, shard_info, stored_schema
from mdstorm_backend.format.index import INDEX_NAME, Index, parse_shard
from mdstorm_backend.format.shard_names import ShardName, parse_shard_name
from mdstorm_backend.kinds import explaining_absence
from mdstorm_backend.maintenance.verify import Problem
from mdstorm_backend.storage import Buffer, Location
from mdstorm_backend.write import commit, full_shard


@dataclass(frozen=True)
class ReindexReport:
    """The result of `reindex`.

    Attributes
    ----------
    url : str
        URL of the dataset.
    shards, rows : int
        Shards and rows in the index.
    replaced : bool
        Whether there was an index before.
    notes : tuple of Problem
        Suspicious findings: files left out, shards that seem to be missing.
    """

    url: str
    shards: int
    rows: int
    replaced: bool
    notes: tuple[Problem, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {**vars(self), "notes": list(map(vars, self.notes))}


@dataclass(frozen=True)
class _IndexedShard:
    """A shard, and the logical columns that its header describes."""

    report: full_shard.ShardReport
    columns: Schema | None
    note: str = ""


def reindex(
    url: str,
    *,
    force: bool = False,
    storage_options: dict[str, Any] | None = None,
    threads: int | None = None,
    on_progress: Progress = None,
) -> ReindexReport:
    """Rebuild the ``index.json`` of the directory at `url`.

    Every shard is read completely: its header describes its columns, its bitmaps give the null
    counts, and the hashes named in its header are computed again. Shards are ordered by
    directory, partition and number. Only the index is written, and nothing is removed. Each thread
    holds one uncompressed shard in memory.

    Parameters
    ----------
    url : str
        Directory of the dataset: a URL or a local path.
    force : bool
        Whether to replace an existing index. Shards that were left out of it on purpose are
        included again. Its other entries are kept, such as the `Unischema` of Petastorm. If the
        index is lost or damaged, they cannot be restored.
    storage_options : dict, optional
        Options of the fsspec file system.
    threads : int, optional
        Number of shards to read at a time; by default one per CPU core, at most 8.
    on_progress : callable or bool, optional
        Function that is called with the number of read shards and the total. By default, progress
        is shown in a terminal or a notebook. False turns it off.

    Raises
    ------
    DatasetNotFoundError
        If there are no shards.
    InvalidArgumentError
        If there is an index, and `force` is False.
    WriteError
        If there are two attempts at one partition, shards of two jobs, or two compressed versions
        of one shard.
    CorruptDatasetError
        If a shard is damaged, or shards belong to several datasets. The index is not written.
    """
    location = Location.of(url, storage_options)
    listed = dict(location.list_sizes())
    exists = INDEX_NAME in listed
    if exists and not force:
        raise errors.InvalidArgumentError(
            f"{location.file_url(INDEX_NAME)} exists: check it with 'mdstorm verify', or replace "
            "it with force=True (--force)"
        )
    names, notes = _shard_files(list(listed))
    if not names:
        with explaining_absence(storage_options):
            raise errors.DatasetNotFoundError(
                f"there are no shards at {location.url}, so there is nothing to index. Check the "
                "URL",
                url=location.url,
            )
    with progress("Reading shards", "shards", on_progress) as shown:
        shards = list(each(lambda name: _read_shard(location, name), names, threads, shown))
    notes += [Problem(n.path, f.note) for n, f in zip(names, shards, strict=True) if f.note]
    claim = shard_info.CLAIM_NAME
    if claim in listed and not exists:
        notes.append(Problem(claim, "is of a writer that was killed: later rows are missing"))
    index = _index_of(location, names, shards)
    if exists and index.extra:
        with suppress(errors.CorruptDatasetError):
            old = Index.from_bytes(bytes(location.read(INDEX_NAME)), url=location.url)
            index = replace(index, extra={**old.extra, **index.extra})
    commit.write_index(location, index)
    rows = sum(shard.samples for shard in index.shards)
    return ReindexReport(location.url, len(names), rows, exists, tuple(notes))


def _shard_files(paths: list[str]) -> tuple[list[ShardName], list[Problem]]:
    """Return the files to index, in order, and notes on files that are left out or missing."""
    parsed = {path: parse_shard_name(path) for path in paths}
    shards = [name for name in parsed.values() if name is not None]
    packed = {name.raw_path for name in shards if name.extension}
    chosen = order_shards(n for n in shards if n.extension or n.path not in packed)
    forms = Counter(name.raw_path for name in chosen)
    twice = [path for path, count in forms.items() if count > 1]
    if twice:
        raise errors.WriteError(
            f"there are several compressed versions of {', '.join(twice[:4])}: keep one "
            "version of each shard, and move the others elsewhere"
        )
    notes = [
        Problem(path, "was left out: its name is not a shard's")
        for path, name in parsed.items()
        if name is None and ".mds" in path
    ]
    notes += [Problem(path, "is missing: later ones are here") for path in missing_numbers(chosen)]
    return chosen, notes


def _read_shard(location: Location, name: ShardName) -> _IndexedShard:
    url = location.file_url(name.path)
    try:
        data = location.read(name.path)
        raw = data
        if name.extension:
            most = shard_info.MAX_SHARD_BYTES
            raw = compression.decompress_unsized(name.extension, data, most)
        return _describe(name, data, raw, url)
    except (AttributeError, LookupError, OSError, TypeError, ValueError) as error:
        # An invalid value in a header, such as an unknown hash, means that the shard is damaged,
        # even if it raises InvalidArgumentError.
        is_ours = isinstance(error, errors.MDStormError)
        if is_ours and not isinstance(error, errors.InvalidArgumentError):
            raise
        raise errors.CorruptDatasetError(
            f"{url} is not a shard that can be indexed ({type(error).__name__}: {error}). Copy it "
            "again, or move it elsewhere to index the others",
            url=url,
        ) from error


def _describe(name: ShardName, data: Buffer, raw: Buffer, url: str) -> _IndexedShard:
    samples, header = layout.read_header(raw, url=url)
    extra = header.pop("mdstorm", {})
    stated = header["compression"] or ""
    note = ""
    if stated.partition(":")[0] != name.extension:
        header["compression"] = name.extension or None
        note = f"is {name.extension or 'not compressed'}, but its header states {stated or 'not'}"
    hashes = header["hashes"]
    info = parse_shard(
        {
            **header,
            "samples": samples,
            "raw_data": _file(name.raw_path, raw, hashes),
            "zip_data": _file(name.path, data, hashes) if name.extension else None,
        }
    )
    validity = layout.unpack_validity(extra.get("nulls", {}))
    columns = stored_schema.parse_columns(extra["columns"]) if extra.get("columns") else None
    if columns is not None and set(columns.names) != set(info.column_names):
        raise ValueError("its header describes different columns than it lists")
    report = full_shard.ShardReport(info, validity.null_counts, validity.element_null_counts)
    return _IndexedShard(report, columns, note)


def _file(basename: str, data: Buffer, hashes: list[str]) -> dict[str, Any]:
    return {"basename": basename, "bytes": len(data), "hashes": compression.digests(hashes, [data])}


def _index_of(location: Location, names: list[ShardName], shards: list[_IndexedShard]) -> Index:
    """Assemble the index, and check it like an index that is read from storage."""
    first = _bare(shards[0].columns)
    for name, other in zip(names, shards, strict=True):
        if _bare(other.columns) != first:
            raise errors.CorruptDatasetError(
                f"{names[0].path} and {name.path} in {location.url} describe different columns: "
                "they are shards of two datasets. Move the shards of one dataset elsewhere"
            )
    reports = [one.report for one in shards]
    url = location.file_url(INDEX_NAME)
    index = commit.build_index(first, reports)
    stored_schema.schema_of(index, url=url)
    return Index.from_bytes(index.to_bytes(), url=url)


def _bare(columns: Schema | None) -> Schema | None:
    """Return the schema without the parts that may differ between the shards of one dataset."""
    return None if columns is None else Schema(tuple(map(stored_schema.without_form, columns)))


def order_shards(names: Iterable[ShardName]) -> list[ShardName]:
    """Return shards in the order of their samples: by directory, partition and number.

    Numbers in the names of directories are compared as numbers, so 2 comes before 10.

    Raises
    ------
    errors.WriteError
        If there are two attempts of one partition, or two jobs (or writers) in one directory: only
        one of them belongs to the dataset.
    """
    ordered = sorted(names, key=_key)
    places: dict[str, list[ShardName]] = defaultdict(list)
    partitions: dict[tuple[str, str, int], list[ShardName]] = defaultdict(list)
    for name in ordered:
        places[name.place].append(name)
        partitions[name.directory, name.job, name.partition].append(name)
    for group in places.values():
        if len({(name.job, name.partition < 0) for name in group}) > 1:
            raise _refusal("shards of several jobs", group)
    for (_, _, partition), group in partitions.items():
        attempts = {name.attempt for name in group}
        if len(attempts) > 1:
            raise _refusal(f"shards of {len(attempts)} attempts of partition {partition}", group)
    return ordered


def missing_numbers(names: Iterable[ShardName]) -> list[str]:
    """Return the names of shards missing before each writer's last shard, at most 10 per writer."""
    writers: dict[tuple[str, str, int, int], list[ShardName]] = defaultdict(list)
    for name in names:
        writers[name.writer].append(name)
    missing = []
    for group in writers.values():
        last = max(group, key=lambda name: name.number)
        absent = sorted(set(range(last.number)) - {name.number for name in group})[:10]
        old = f".{last.number:05}.mds"
        missing += [last.path.replace(old, f".{number:05}.mds") for number in absent]
    return missing


def _key(name: ShardName) -> tuple[object, ...]:
    parts = re.split(r"(\d+)", name.directory)
    natural = tuple((int(p), "") if p.isdecimal() else (-1, p) for p in parts)
    return natural, name.partition, name.job, name.attempt, name.number, name.path


def _refusal(what: str, names: list[ShardName]) -> errors.WriteError:
    examples = {name.writer: name.path for name in reversed(names)}
    listed = " and ".join(sorted(examples.values())[:4])
    return errors.WriteError(
        f"there are {what}: {listed}. Only one of them belongs to the dataset, and mdstorm cannot "
        "know which: move the files of the other elsewhere, and try again"
    )
