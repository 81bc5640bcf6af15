"""Verify every file, hash and value of a dataset."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mdstorm_backend import errors
from mdstorm_backend.base.threads import each, map_files
from mdstorm_backend.datasets import Dataset, open_dataset
from mdstorm_backend.display import Progress, progress
from mdstorm_backend.format import Column, Schema, as_arrow, compression, layout, stored_schema
from mdstorm_backend.format.index import INDEX_NAME, FileInfo, ShardInfo
from mdstorm_backend.read import late, mds_shard
from mdstorm_backend.storage import Buffer, Location

#: Values are decoded from about this many bytes at a time.
_CHUNK_BYTES = 16 << 20
#: Keys of a shard's index entry that its header repeats.
_REPEATED = ("column_names", "column_encodings", "column_sizes", "format", "version")


@dataclass(frozen=True, order=True)
class Problem:
    """A problem with a file, or a note about one, such as that it is not in the index.

    Attributes
    ----------
    file : str
        Name of the file in the directory of the dataset.
    problem : str
        Description.
    """

    file: str
    problem: str


@dataclass(frozen=True)
class VerifyReport:
    """The findings of `verify`.

    Attributes
    ----------
    url : str
        URL of the dataset.
    quick : bool
        Whether only the sizes of the files were checked.
    shards, rows, bytes : int
        Shards, samples and bytes of stored files that were checked, according to the index.
    problems : tuple of Problem
        The problems found.
    notes : tuple of Problem
        Checks that were not possible, each listed once even if it concerns many shards, and files
        that do not belong to the dataset.
    has_hashes : bool
        Whether the index holds hashes of every file. Without them changed values cannot be
        detected.
    """

    url: str
    quick: bool
    shards: int
    rows: int
    bytes: int
    problems: tuple[Problem, ...] = ()
    notes: tuple[Problem, ...] = ()
    has_hashes: bool = False

    @property
    def is_good(self) -> bool:
        """Whether no problem was found."""
        return not self.problems

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {
            **vars(self),
            "is_good": self.is_good,
            "problems": list(map(vars, self.problems)),
            "notes": list(map(vars, self.notes)),
        }


def verify(
    url: str,
    *,
    quick: bool = False,
    storage_options: dict[str, Any] | None = None,
    threads: int | None = None,
    on_progress: Progress = None,
) -> VerifyReport:
    """Check the dataset at `url` and report every problem.

    The files themselves are read, not their copies in the shard cache. Each thread holds one
    uncompressed shard in memory.

    Parameters
    ----------
    url : str
        Directory of the dataset: a URL or a local path.
    quick : bool
        Whether to check only that the files exist with the right sizes. By default, every file is
        read: its hashes, offsets and header are compared with the index, and every value except
        pickles is decoded.
    storage_options : dict, optional
        Options of the fsspec file system.
    threads : int, optional
        Number of shards to check at a time; by default one per CPU core, at most 8.
    on_progress : callable or bool, optional
        Function that is called with the number of shards read and the total. By default,
        progress is shown in a terminal or a notebook. False turns it off.

    Raises
    ------
    DatasetNotFoundError
        If there is no dataset.
    StorageError
        If its storage cannot be read.
    """
    try:
        dataset = open_dataset(url, storage_options=storage_options)
        schema = _schema(dataset)
    except errors.CorruptDatasetError as error:
        location = Location.of(url, storage_options)
        problem = str(error).removeprefix(f"{location.file_url(INDEX_NAME)} ")
        return VerifyReport(location.url, quick, 0, 0, 0, (Problem(INDEX_NAME, problem),))
    location, shards = dataset.location, dataset.index.shards
    problems, notes = _check_files(location, shards)
    nulls: Counter[str] = Counter()
    null_elements: Counter[str] = Counter()
    if not quick:
        damaged = {problem.file for problem in problems}
        left = [shard for shard in shards if shard.stored.basename not in damaged]
        noted: dict[str, Problem] = {}
        with progress("Checking shards", "shards", on_progress) as shown:
            for check in each(lambda s: _ShardCheck.of(location, schema, s), left, threads, shown):
                problems += check.problems
                nulls.update(check.null_counts)
                null_elements.update(check.element_null_counts)
                for note in check.notes:
                    noted.setdefault(note.problem, note)
        notes += noted.values()
        if not problems:
            wrong = _wrong_counts(dataset, nulls, null_elements)
            problems += [Problem(INDEX_NAME, text) for text in wrong]
    return VerifyReport(
        url=location.url,
        quick=quick,
        shards=len(shards),
        rows=len(dataset),
        bytes=sum(shard.stored.bytes for shard in shards),
        problems=tuple(dict.fromkeys(problems)),
        notes=tuple(notes),
        has_hashes=all(shard.stored.hashes for shard in shards),
    )


def _schema(dataset: Dataset) -> Schema:
    """Return the schema; derive it from the encodings if neither index nor header holds it."""
    try:
        return dataset.schema
    except errors.MDStormError:
        if dataset.index.extra.get("columns"):
            raise
        return Schema.from_shards(dataset.index.shards).opened(dataset.url)


def _check_files(
    location: Location, shards: Iterable[ShardInfo]
) -> tuple[list[Problem], list[Problem]]:
    """Check that every file exists with its recorded size, and find shards not in the index."""
    expected = {shard.stored.basename: shard.stored.bytes for shard in shards}
    listed: dict[str, int | None] = {}
    with suppress(NotImplementedError, OSError):  # for example, HTTP servers cannot list files
        listed.update(location.list_sizes())
    unlisted = [name for name in expected if name not in listed]
    sizes = {**listed, **dict(zip(unlisted, map_files(location.size, unlisted), strict=True))}
    problems = [
        Problem(
            name,
            "is missing"
            if sizes[name] is None
            else f"holds {sizes[name]} bytes, but the index records {size}",
        )
        for name, size in expected.items()
        if sizes[name] != size
    ]
    known = {file.basename for s in shards for file in (s.raw_data, s.zip_data) if file}
    notes = [
        Problem(name, "is not in the index")
        for name in listed
        if name not in known and (name.endswith(".mds") or name.rpartition(".")[0].endswith(".mds"))
    ]
    return problems, notes


def _wrong_counts(
    dataset: Dataset, nulls: Counter[str], null_elements: Counter[str]
) -> Iterator[str]:
    """Yield a description of each count in the index that is missing or contradicts the shards."""
    extra = dataset.index.extra
    if not extra.get("columns"):
        hidden = sorted({*nulls, *null_elements})
        if hidden:
            yield (
                f"does not record the nulls in {hidden}: another program has rewritten it. "
                "Restore it with 'mdstorm reindex --force'"
            )
        return
    stated = extra.get("num_rows", len(dataset))
    if stated != len(dataset):
        yield f"counts {stated} rows, but its shards hold {len(dataset)}"
    for column in dataset.schema:
        for what, count, found in (
            ("nulls", column.null_count, nulls[column.name]),
            ("null elements", column.element_null_count, null_elements[column.name]),
        ):
            if count != found:
                yield (
                    f"counts {count} {what} in column {column.name!r}, but its shards hold {found}"
                )


@dataclass
class _ShardCheck:
    """The check of one shard, and its findings.

    Attributes
    ----------
    location : Location
        Directory of the dataset.
    schema : Schema
        Schema of the dataset.
    info : ShardInfo
        Index entry of the shard.
    problems, notes : list of Problem
        As in `VerifyReport`; some may be listed twice.
    null_counts, element_null_counts : dict of str to int
        Nulls according to the bitmaps in the header.
    """

    location: Location
    schema: Schema
    info: ShardInfo
    problems: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)
    null_counts: dict[str, int] = field(default_factory=dict)
    element_null_counts: dict[str, int] = field(default_factory=dict)

    @classmethod
    def of(cls, location: Location, schema: Schema, info: ShardInfo) -> _ShardCheck:
        """Read a whole shard and check it against the index and the format."""
        check = cls(location, schema, info)
        try:
            data = location.read(info.stored.basename)
        except FileNotFoundError:
            check._add("is missing")
        else:
            check._check_file(info.stored, data, "")
            raw = check._decompress(data)
            if raw is not None:
                check._check_content(raw)
        return check

    @property
    def _url(self) -> str:
        return self.location.file_url(self.info.stored.basename)

    def _add(self, problem: str) -> None:
        self.problems.append(Problem(self.info.stored.basename, problem))

    def _add_error(self, error: errors.MDStormError) -> None:
        text = str(error).removeprefix(f"{self._url} ")
        self._add(text.replace(f" of {self._url} ", " "))

    def _note(self, text: str) -> None:
        self.notes.append(Problem(self.info.stored.basename, text))

    def _check_file(self, file: FileInfo, data: Buffer, what: str) -> None:
        """Compare the size and every recorded hash of a file with its content."""
        if len(data) != file.bytes:
            self._add(f"{what}holds {len(data)} bytes, but the index records {file.bytes}")
            return
        for name, stated in file.hashes.items():
            if name not in compression.HASH_NAMES:
                self._note(f"its hash {name!r} is unknown and was not checked")
                continue
            try:
                found = compression.digest(name, [data])
            except errors.MissingDependencyError as error:
                self._note(f"its hash {name!r} was not checked: {error}")
                continue
            if found != stated.lower():
                self._add(f"{what}has the {name} {found}, but the index records {stated}")
        unstated = sorted(set(self.info.hashes) - set(file.hashes))
        if unstated:
            names = ", ".join(unstated)
            self._add(f"{what}has no {names} in the index, although its 'hashes' names {names}")

    def _decompress(self, data: Buffer) -> Buffer | None:
        if self.info.compression is None:
            return data
        try:
            return compression.decompress(self.info.compression, data, self.info.raw_data.bytes)
        except (OSError, ValueError) as error:
            self._add(f"cannot be decompressed as {self.info.compression} ({error})")
            return None

    def _check_content(self, raw: Buffer) -> None:
        if self.info.zip_data is not None:
            self._check_file(self.info.raw_data, raw, "decompressed, it ")
        try:
            schema = _own_schema(self.schema, self.info)
            shard = mds_shard.MDSShard(raw, self.info, schema, url=self._url)
            self._check_header(raw)
            self.null_counts = shard.validity.null_counts
            self.element_null_counts = shard.validity.element_null_counts
        except errors.MDStormError as error:
            self._add_error(error)
        else:
            self._check_values(shard)

    def _check_header(self, raw: Buffer) -> None:
        """Compare the header with the index."""
        stated = self.info.to_json()
        _, header = layout.read_header(raw, url=self._url)
        for key in _REPEATED:
            if key in header and (header[key] or None) != (stated[key] or None):
                self._add(
                    f"has {key} {layout.shown_json(header[key])} in its header, and "
                    f"{layout.shown_json(stated[key])} in the index"
                )
        columns = header.get("mdstorm", {}).get("columns")
        if columns:
            try:
                described = stored_schema.parse_columns(columns)
            except (KeyError, TypeError, ValueError) as error:
                self._add(f"has an unreadable schema in its header ({error})")
                return
            if any(column.spark_type is not None for column in self.schema):
                ours, theirs = (
                    [(c.name, c.encoding, c.spark_type, c.nullable) for c in columns]
                    for columns in (self.schema, described)
                )
                if ours != theirs:
                    self._add("has another schema in its header than the index")

    def _check_values(self, shard: mds_shard.MDSShard) -> None:
        columns = [column for column in shard.schema if self._is_decodable(column)]
        try:
            self._decode(shard, columns)
        except errors.MDStormError:
            # One column at a time, so that a damaged one does not hide problems in the others.
            for column in columns:
                try:
                    self._decode(shard, [column])
                except errors.MissingDependencyError as error:
                    self._note(f"column {column.name!r} was not decoded: {error}")
                except errors.MDStormError as error:
                    self._add_error(error)

    def _is_decodable(self, column: Column) -> bool:
        if column.name not in self.info.column_names:
            self._add(f"has no column {column.name!r}, which other shards have")
            return False
        encoding = column.parsed_encoding
        if encoding.is_opaque:
            self._add(
                f"holds column {column.name!r} in {encoding.described}, which cannot be decoded"
            )
        elif encoding.is_unsafe:
            self._note(
                f"column {column.name!r} was not decoded: {column.encoding!r} is only safe to "
                "load if you trust it"
            )
        return not (encoding.is_opaque or encoding.is_unsafe)

    def _decode(self, shard: mds_shard.MDSShard, columns: list[Column]) -> None:
        """Decode every value of some columns, one chunk of rows at a time."""
        names = [column.name for column in columns]
        size = max(1, self.info.samples * _CHUNK_BYTES // max(self.info.raw_data.bytes, 1))
        for start in range(0, self.info.samples, size):
            rows = np.arange(start, min(start + size, self.info.samples))
            batch = shard.read(rows, names, exact_nulls=True)
            for column in columns:
                if column.is_late:
                    decode = late.object_decoder(column.parsed_encoding, column, self._url, "array")
                    for value in as_arrow(batch[column.name]).to_pylist():
                        if value is not None:
                            decode(value)


def _own_schema(schema: Schema, info: ShardInfo) -> Schema:
    """Return the schema with this shard's encodings; columns with a Spark type are unchanged."""
    own = Schema.from_shards([info])
    return schema.with_columns(
        replace(column, encoding=own[column.name].encoding, length=own[column.name].length)
        for column in schema
        if column.spark_type is None and column.name in own
    )
