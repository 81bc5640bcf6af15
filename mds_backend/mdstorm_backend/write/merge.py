"""`merge_index`: one index over the shards of several datasets under one directory."""

from __future__ import annotations

import json
import os
import posixpath
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from inspect import signature
from typing import Any

from mdstorm_backend import errors
from mdstorm_backend.base import pools, warn_user
from mdstorm_backend.format import Column, stored_schema
from mdstorm_backend.format.index import INDEX_NAME, FileInfo, Index, ShardInfo
from mdstorm_backend.storage import Location
from mdstorm_backend.write import commit, directories


def merge_index(*args: Any, **options: Any) -> None:
    """Write one index over several datasets, with MosaicML Streaming's two call forms.

    ``merge_index(root)`` merges every dataset under a directory, in the order of their paths as
    text: ``1``, ``10``, ``2``. ``merge_index([…], out)`` merges the listed ``index.json``
    files in the order of the list; all must be under `out`. The merged index is written to the
    root, or to `out`, and replaces any previously merged index. Nothing else is written, and
    nothing is removed. The parts remain separate datasets.

    A shard that several indexes list counts once. If a directory has an index over those under it,
    the merged index lists every shard once, in the order of the upper index. Types that MDS does
    not have are kept if all parts agree about them, and their null counts are added. For an empty
    list, a warning is issued and nothing is written.

    Parameters
    ----------
    index_file_urls : list
        Paths or URLs of ``index.json`` files, or pairs ``(local, remote)``, of which the local file
        is read if it exists. Left out in the first form.
    out : str or path, or pair of them
        Directory of the merged dataset: a path, a URL, or a pair ``(local, remote)``. With a pair,
        the index is written to the second, and with `keep_local` also to the first.
    keep_local : bool
        With a pair, whether to also write to the local directory.
    download_timeout : int
        Accepted for compatibility; the clients of object stores have their own time limits.
    storage_options : dict, optional
        Arguments of the fsspec file system.

    Raises
    ------
    InvalidArgumentError
        If there is no dataset under the directory, or a part is not under `out`.
    DatasetNotFoundError
        If an index is missing.
    CorruptDatasetError
        If an index cannot be parsed, or two indexes contradict each other about a shard.
    WriteError
        If the root is itself a dataset, whose shards the merged index would not list.

    Examples
    --------
    >>> merge_index("/data/train")  # doctest: +SKIP
    >>> merge_index(["/data/train/b/index.json", "/data/train/a/index.json"], "/data/train")
    ... # doctest: +SKIP
    """
    has_list = isinstance(args[0], list) if args else "index_file_urls" in options
    merge = _merge_files if has_list else _merge_root
    try:
        signature(merge).bind(*args, **options)
    except TypeError as error:
        raise errors.ArgumentTypeError(
            f"merge_index() {error}: call merge_index(root), or merge_index([…], out)"
        ) from error
    merge(*args, **options)


def _merge_root(
    out: directories.PathOrPair,
    keep_local: bool = True,
    download_timeout: int = 60,
    *,
    storage_options: dict[str, Any] | None = None,
) -> None:
    targets = directories.find_targets(out, keep_local, storage_options, temporary=False)
    # For a pair, search the local directory first, as `_find` does.
    for root in targets.all:
        names = [n for n in root.list_names() if posixpath.basename(n) == INDEX_NAME]
        below = sorted(f"{posixpath.dirname(n)}/" for n in names if n != INDEX_NAME)
        if below:
            break
    else:
        raise errors.InvalidArgumentError(
            f"there is nothing to merge: no directory under {targets.all[-1].url} has an "
            f"{INDEX_NAME}. Pass the directory that contains the parts"
        )
    _merge([(root.child(path[:-1]), path[:-1]) for path in below], root.url, targets)


def _merge_files(
    index_file_urls: Sequence[directories.PathOrPair],
    out: directories.PathOrPair,
    keep_local: bool = True,
    download_timeout: int = 60,
    *,
    storage_options: dict[str, Any] | None = None,
) -> None:
    if not index_file_urls:
        warn_user(f"there is nothing to merge: the list of {INDEX_NAME} files is empty")
        return
    targets = directories.find_targets(out, keep_local, storage_options, temporary=False)
    found = dict.fromkeys(_find(item, targets.all, storage_options) for item in index_file_urls)
    _merge(found, targets.all[-1].url, targets)


def _find(
    item: directories.PathOrPair,
    roots: Sequence[Location],
    storage_options: dict[str, Any] | None,
) -> tuple[Location, str]:
    """Return an index's directory, and the directory's path relative to the merged dataset."""
    files = [os.fspath(file) for file in (item if isinstance(item, tuple) else (item,)) if file]
    if not files or not all(posixpath.basename(file) == INDEX_NAME for file in files):
        raise errors.InvalidArgumentError(
            f"each part must be the path or URL of an {INDEX_NAME}, or a (local, remote) pair of "
            f"them; found {item!r}"
        )
    folders = [Location.of(posixpath.dirname(file) or ".", storage_options) for file in files]
    chosen = next((d for d in folders[:-1] if d.exists(INDEX_NAME)), folders[-1])
    for directory in folders:
        for root in roots:
            if directory.url.startswith(f"{root.url}/"):
                return chosen, directory.url[len(root.url) + 1 :]
    if not chosen.exists(INDEX_NAME):
        raise _missing(chosen.file_url(INDEX_NAME))
    raise errors.InvalidArgumentError(
        f"{files[0]} is not in a directory under {' or '.join(r.url for r in roots)}, so the "
        "merged index could not list its shards. Merge into a directory that contains all parts"
    )


def _merge(found: Collection[tuple[Location, str]], url: str, targets: directories.Targets) -> None:
    """Write the merged index; `found` holds each dataset's directory and its path under `url`."""
    indexes = pools.map_files(_read_index, [location for location, _ in found])
    parts = [MergeSource(path, index) for (_, path), index in zip(found, indexes, strict=True)]
    merged = merge_parts(parts, url)
    for location in targets.to_write:
        _check_replaceable(location, merged)
    # The version is the first key, as in MosaicML Streaming's merged indexes.
    value = json.loads(merged.to_bytes())
    content = json.dumps({"version": value.pop("version"), **value}).encode("ascii")
    for location in targets.to_write:
        directories.make_directory(location)
        commit.write_index(location, content)


def _read_index(directory: Location) -> Index:
    url = directory.file_url(INDEX_NAME)
    try:
        data = bytes(directory.read(INDEX_NAME))
    except FileNotFoundError as error:
        raise _missing(url) from error
    return Index.from_bytes(data, url=url)


def _missing(url: str) -> errors.DatasetNotFoundError:
    return errors.DatasetNotFoundError(
        f"there is no {url}, so it cannot be merged. Check the path; if the dataset was deleted or "
        "its job failed, write it again",
        url=url,
    )


def _check_replaceable(location: Location, index: Index) -> None:
    """Raise WriteError if the directory's index lists existing shards that the merged one lacks."""
    if not location.exists(INDEX_NAME):
        return
    merged = {shard.raw_data.basename for shard in index.shards}
    for shard in _read_index(location).shards:
        stored = shard.stored
        if shard.raw_data.basename not in merged and location.exists(stored.basename):
            raise errors.WriteError(
                f"{location.url} is itself a dataset: its index lists {stored.basename}, "
                "which the merged index would not list. The index was not replaced; move that "
                "dataset to a subdirectory, and merge again"
            )


@dataclass(frozen=True)
class MergeSource:
    """One of the datasets to merge.

    Attributes
    ----------
    directory : str
        Directory of the part, relative to the merged dataset.
    index : Index
        Index of the part.
    """

    directory: str
    index: Index

    @property
    def shards(self) -> list[ShardInfo]:
        """Shards of the part, with file names relative to the merged dataset."""
        return [
            shard._replace(
                raw_data=self._moved(shard.raw_data),
                zip_data=shard.zip_data and self._moved(shard.zip_data),
            )
            for shard in self.index.shards
        ]

    def _moved(self, file: FileInfo) -> FileInfo:
        return file._replace(basename=posixpath.join(self.directory, file.basename))


def merge_parts(parts: Sequence[MergeSource], url: str) -> Index:
    """Return an index that combines `parts` in order. Error messages mention `url`.

    Raises
    ------
    CorruptDatasetError
        If the indexes of two parts contradict each other about a shard.
    """
    shards: dict[str, ShardInfo] = {}
    first: dict[str, str] = {}
    counted = []
    for part in parts:
        new = 0
        for shard in part.shards:
            name = shard.raw_data.basename
            if shards.setdefault(name, shard) != shard:
                raise errors.CorruptDatasetError(
                    f"the indexes in {first[name]!r} and in {part.directory!r} under {url} "
                    f"contradict each other about the shard {name}. Remove the one that is out of "
                    "date, and merge again",
                    url=url,
                )
            new += first.setdefault(name, part.directory) == part.directory
        if new or not part.index.shards:
            counted.append((part, new == len(part.index.shards)))
    columns = _merged_columns(counted, url)
    return Index(tuple(shards.values()), commit.schema_extra(shards.values(), columns))


def _merged_columns(parts: Sequence[tuple[MergeSource, bool]], url: str) -> list[Column]:
    """Return the columns of the merged index; if the parts disagree, warn and return no columns.

    There are also no columns if a part shares only some of its shards with another part, because
    its null counts cannot be divided.
    """
    schemas = [
        stored_schema.schema_of(part.index, url=f"{url}/{part.directory}/{INDEX_NAME}")
        for part, _ in parts
        if part.index.extra.get("columns")
    ]
    if not schemas:
        return []
    first, *others = [tuple(map(_type_of, schema)) for schema in schemas]
    is_same = len(schemas) == len(parts) and all(other == first for other in others)
    if not is_same or not all(whole for _, whole in parts):
        warn_user(
            f"the parts of {url} do not have the same types, so the merged index records no "
            "types: columns are read as plain MDS, dates as numbers and nulls as the values that "
            "replace them. Write the parts with equal columns, or run 'mdstorm reindex' on each "
            "of them if their indexes have lost them"
        )
        return []
    full = [s for s, (part, _) in zip(schemas, parts, strict=True) if part.index.shards]
    columns = (stored_schema.joined_form([s[c.name] for s in full] or [c]) for c in schemas[0])
    return [replace(c, nullable=any(s[c.name].nullable for s in schemas)) for c in columns]


def _type_of(column: Column) -> Column:
    """Return a column without what may differ between parts, such as whether it may have nulls."""
    return replace(stored_schema.without_form(column), nullable=True)
