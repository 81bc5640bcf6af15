"""Keys of Petastorm's metadata in Parquet files, and of ours in an index."""

from __future__ import annotations

import hashlib
import json
import posixpath
from collections.abc import Mapping
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mdstorm.errors import ArgumentTypeError, CorruptDatasetError
from mdstorm_backend.parquet import ParquetDataset, read_file_metadata
from mdstorm_backend.storage import Location

#: File at the root of a dataset that holds nothing but metadata.
COMMON_METADATA = "_common_metadata"
#: File with all footers. Where it exists, Petastorm reads no row groups that it does not name.
SUMMARY_METADATA = "_metadata"

#: Keys of its key/value metadata: the pickled schema, how many row groups the files have (JSON),
#: and pickled indexes of row groups.
UNISCHEMA_KEY = b"dataset-toolkit.unischema.v1"
ROW_GROUPS_PER_FILE_KEY = b"dataset-toolkit.num_row_groups_per_file.v1"
ROW_GROUPS_INDEX_KEY = b"dataset-toolkit.rowgroups_index.v1"
#: Which row groups the indexes were built for, noted by mdstorm: see `stored_index`.
ROW_GROUPS_INDEX_NOTE_KEY = b"mdstorm.rowgroups_index.v1"

#: Key of the schema, as JSON, in mdstorm's entry of an MDS index.
UNISCHEMA_EXTRA = "unischema"


#: Arrow's own description of a schema, which it adds by itself.
_ARROW_KEY = b"ARROW:schema"


def location_of(dataset: Any) -> Location:
    """Return the directory of a dataset that we or pyarrow opened.

    Raises
    ------
    ArgumentTypeError
        If it is something else.
    """
    if isinstance(dataset, ParquetDataset):
        return dataset.location
    # Not by its class: older versions of pyarrow have two.
    if not hasattr(dataset, "fragments") or not dataset.files:
        raise ArgumentTypeError(
            "expected a ParquetDataset of mdstorm or pyarrow with at least one file, found "
            f"{type(dataset).__name__}"
        )
    directories = [posixpath.dirname(str(path)) for path in dataset.files]
    root = posixpath.commonpath(directories)
    while "=" in posixpath.basename(root):  # all files are in one partition
        root = posixpath.dirname(root)
    return Location.of(root, filesystem=dataset.filesystem)


def common_metadata_of(dataset: Any) -> Mapping[bytes, bytes]:
    """Return the keys and values of a dataset's ``_common_metadata``; {} if it has none.

    Raises
    ------
    CorruptDatasetError
        If the file was truncated, or is something else.
    """
    if isinstance(dataset, ParquetDataset):
        try:
            return dataset.common_metadata
        except CorruptDatasetError as error:
            raise _damaged(error.url) from error
    found = read_metadata(location_of(dataset))
    return dict(found.metadata or {}) if found is not None else {}


def read_metadata(location: Location) -> pq.FileMetaData | None:
    """Return the footer of ``_common_metadata``, or else of ``_metadata``; None without both.

    Raises
    ------
    CorruptDatasetError
        If the file was truncated, or is something else.
    """
    for name in (COMMON_METADATA, SUMMARY_METADATA):
        try:
            content = location.read(name)
        except (FileNotFoundError, NotADirectoryError):
            continue
        try:
            return pq.read_metadata(pa.BufferReader(pa.py_buffer(content)))
        except (pa.ArrowException, OSError) as error:
            raise _damaged(location.file_url(name)) from error
    return None


def entries_of(metadata: pq.FileMetaData | None) -> dict[bytes, bytes]:
    """Return the keys and values of a footer, without Arrow's own; {} for None."""
    entries = (metadata.metadata if metadata is not None else None) or {}
    return {key: value for key, value in entries.items() if key != _ARROW_KEY}


def add_metadata(dataset: Any, entries: Mapping[bytes, bytes]) -> None:
    """Add entries to ``_common_metadata``, replacing those with the same keys.

    Parameters
    ----------
    dataset : ParquetDataset or pyarrow.parquet.ParquetDataset
        The dataset. The columns of its first file are written where there is no such file.
    entries : mapping of bytes to bytes
        The entries.

    Raises
    ------
    CorruptDatasetError
        If the file that is there was truncated, or is something else.
    """
    location = location_of(dataset)
    base = read_metadata(location)
    if base is None:
        ours = isinstance(dataset, ParquetDataset)
        base = read_file_metadata(dataset, dataset.files[:1])[0] if ours else _first(dataset)
    write_beside(location, COMMON_METADATA, metadata_file(base, {**entries_of(base), **entries}))


def metadata_file(columns: pq.FileMetaData, entries: Mapping[bytes, bytes]) -> bytes:
    """Return the content of a Parquet file of the columns of another one, without rows.

    Spark takes its columns for those of the dataset, so they are kept as they are stored.
    """
    described = columns.schema
    stored = {described.column(number).physical_type for number in range(len(described))}
    # Not with the metadata of the schema, which lacks what Arrow has taken from there.
    schema = described.to_arrow_schema().remove_metadata().with_metadata(dict(entries))
    file = BytesIO()
    pq.write_metadata(schema, file, use_deprecated_int96_timestamps="INT96" in stored)
    return file.getvalue()


def write_beside(location: Location, name: str, content: bytes) -> None:
    """Write a file of metadata atomically, and remove Hadoop's checksum of the one before.

    Hadoop's local file system checks files against ``.<name>.crc``, if that exists, and refuses
    those that others have rewritten.
    """
    if location.is_local_disk:
        location.remove(f".{name}.crc")
    location.write(name, [content])


def _first(dataset: Any) -> pq.FileMetaData:
    fragment = dataset.fragments[0]
    fragment.ensure_complete_metadata()
    return fragment.metadata


def _damaged(url: str) -> CorruptDatasetError:
    return CorruptDatasetError(
        f"{url} was truncated, or is not a Parquet file: its writer was probably interrupted. The "
        "rows beside it are not affected. Write it again with generate_petastorm_metadata(spark, "
        "url, 'package.module.MySchema'), or with an empty block: with "
        "materialize_dataset(spark, url, MySchema): pass",
        url=url,
    )


def index_entries(source: ParquetDataset, indexes: bytes) -> dict[bytes, bytes]:
    """Return the entries of ``_common_metadata`` for a pickle of indexes of a dataset."""
    return {
        ROW_GROUPS_INDEX_KEY: indexes,
        ROW_GROUPS_INDEX_NOTE_KEY: _note(source, indexes),
        ROW_GROUPS_PER_FILE_KEY: counts_entry(source),
    }


def has_stale_index(source: ParquetDataset, entries: Mapping[bytes, bytes]) -> bool:
    """Whether there are indexes that were built for other row groups than the dataset has.

    Of indexes that Petastorm wrote this is known only if the numbers of row groups have changed.
    """
    indexes = entries.get(ROW_GROUPS_INDEX_KEY)
    if indexes is None:
        return False
    note = entries.get(ROW_GROUPS_INDEX_NOTE_KEY, b"")
    if note.endswith(_digest(indexes)):
        return note != _note(source, indexes)
    counts = row_group_counts(entries)
    return counts is not None and sum(counts.values()) != len(source.row_groups)


def row_groups_identity(source: ParquetDataset) -> str:
    """Return an identity that changes with the row groups, but not when files are copied."""
    groups = [(group.path, group.ordinal, group.num_rows) for group in source.row_groups]
    return hashlib.sha256(repr(groups).encode()).hexdigest()[:16]


def row_group_counts(entries: Mapping[bytes, bytes]) -> dict[str, int] | None:
    """Return the row groups of each file according to metadata; None if they do not say."""
    try:
        found = json.loads(entries[ROW_GROUPS_PER_FILE_KEY])
        return {str(name): int(count) for name, count in found.items()}
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def counted_row_groups(source: ParquetDataset) -> dict[str, int]:
    """Return the row groups of each file, 0 for files without rows."""
    counts = {file.name: 0 for file in source.files}
    for group in source.row_groups:
        counts[group.path] += 1
    return counts


def counts_entry(source: ParquetDataset) -> bytes:
    """Return the row groups of each file as metadata keep them."""
    return json.dumps(counted_row_groups(source)).encode("utf-8")


def _note(source: ParquetDataset, indexes: bytes) -> bytes:
    return row_groups_identity(source).encode("ascii") + b" " + _digest(indexes)


def _digest(indexes: bytes) -> bytes:
    """Tell the pickle that the note belongs to from a later one by Petastorm."""
    return hashlib.sha256(indexes).hexdigest()[:16].encode("ascii")
