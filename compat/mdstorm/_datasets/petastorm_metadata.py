"""Petastorm's metadata for Parquet files: the schema, row group counts and indexes."""

from __future__ import annotations

import hashlib
import json
import posixpath
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from io import BytesIO
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mdstorm import errors
from mdstorm._pickles import dump_field, dump_unischema, load_unischema
from mdstorm.codecs import CompressedImageCodec, CompressedNdarrayCodec, NdarrayCodec
from mdstorm.unischema import Unischema
from mdstorm_backend.base import parse_json
from mdstorm_backend.datasets import SampleDataset
from mdstorm_backend.kinds import open_stored, what_is_at
from mdstorm_backend.parquet import ParquetDataset, has_same_files
from mdstorm_backend.storage import Location

#: File with only metadata, at the root of a dataset.
COMMON_METADATA = "_common_metadata"
#: File with all footers. If it exists, Petastorm reads only the row groups that it lists.
SUMMARY_METADATA = "_metadata"

#: Metadata keys of the pickled schema, the number of row groups in each file (JSON), and the
#: pickled row group indexes.
UNISCHEMA_KEY = b"dataset-toolkit.unischema.v1"
ROW_GROUPS_PER_FILE_KEY = b"dataset-toolkit.num_row_groups_per_file.v1"
ROW_GROUPS_INDEX_KEY = b"dataset-toolkit.rowgroups_index.v1"
#: Key of mdstorm's digest of the indexed row groups: see `has_stale_index`.
ROW_GROUPS_INDEX_NOTE_KEY = b"mdstorm.rowgroups_index.v1"

#: Key of the schema, as JSON, in mdstorm's entry of an MDS index.
UNISCHEMA_EXTRA = "unischema"

#: Key of the schema description that Arrow itself adds.
_ARROW_KEY = b"ARROW:schema"
#: Maximum number of attempts to write metadata that lists all files. One attempt may not suffice,
#: because other `materialize_dataset` blocks may add files at the same time. A limit is safe,
#: because the block that adds the last file writes metadata afterwards.
_MOST_ROUNDS = 20
#: Number of attempts to read the footer of a file that another process may still be writing.
_FOOTER_ROUNDS = 3
_FOOTER_PAUSE_S = 0.1
_ENCODED = (CompressedImageCodec, CompressedNdarrayCodec, NdarrayCodec)


def location_of(dataset: Any) -> Location:
    """Return the directory of a dataset that mdstorm or pyarrow opened.

    Raises
    ------
    ArgumentTypeError
        If `dataset` is something else.
    """
    if isinstance(dataset, ParquetDataset):
        return dataset.location
    # pyarrow's dataset is recognized by its attributes, because older versions have two classes.
    if not hasattr(dataset, "fragments") or not dataset.files:
        raise errors.ArgumentTypeError(
            "expected a ParquetDataset of mdstorm or pyarrow with at least one file, found "
            f"{type(dataset).__name__}"
        )
    directories = [posixpath.dirname(str(path)) for path in dataset.files]
    root = posixpath.commonpath(directories)
    while "=" in posixpath.basename(root):  # all files are in this one partition
        root = posixpath.dirname(root)
    return Location.of(root, filesystem=dataset.filesystem)


def common_metadata_of(dataset: Any) -> Mapping[bytes, bytes]:
    """Return the keys and values in a dataset's ``_common_metadata``; {} if it has none.

    Raises
    ------
    CorruptDatasetError
        If the file was truncated, or is not a Parquet file.
    """
    if isinstance(dataset, ParquetDataset):
        try:
            return dataset.common_metadata
        except errors.CorruptDatasetError as error:
            raise _damaged(error.url) from error
    found = read_metadata(location_of(dataset))
    return dict(found.metadata or {}) if found is not None else {}


def read_metadata(location: Location) -> pq.FileMetaData | None:
    """Return the footer of ``_common_metadata`` or ``_metadata``; None if neither exists.

    Raises
    ------
    CorruptDatasetError
        If the file was truncated, or is not a Parquet file.
    """
    for name in (COMMON_METADATA, SUMMARY_METADATA):
        try:
            content = location.read(name)
        except (FileNotFoundError, NotADirectoryError):
            continue
        except IsADirectoryError as error:
            raise _damaged(location.file_url(name)) from error
        try:
            return pq.read_metadata(pa.BufferReader(pa.py_buffer(content)))
        except (pa.ArrowException, OSError) as error:
            raise _damaged(location.file_url(name)) from error
    return None


def entries_of(metadata: pq.FileMetaData | None) -> dict[bytes, bytes]:
    """Return the keys and values in a footer, except Arrow's own; {} for None."""
    entries = (metadata.metadata if metadata is not None else None) or {}
    return {key: value for key, value in entries.items() if key != _ARROW_KEY}


def add_metadata(dataset: Any, entries: Mapping[bytes, bytes]) -> None:
    """Add entries to ``_common_metadata``, replacing those with the same keys.

    Parameters
    ----------
    dataset : ParquetDataset or pyarrow.parquet.ParquetDataset
        The dataset. If it has no metadata file, one is written with the columns of its first file.
    entries : mapping of bytes to bytes
        The entries.

    Raises
    ------
    CorruptDatasetError
        If the existing file was truncated, or is not a Parquet file.
    """
    location = location_of(dataset)
    base = read_metadata(location)
    if base is None and isinstance(dataset, ParquetDataset):
        (base,) = dataset.read_file_metadata(dataset.files[:1])
    elif base is None:
        (fragment, *_) = dataset.fragments
        fragment.ensure_complete_metadata()
        base = fragment.metadata
    write_metadata_file(
        location, COMMON_METADATA, metadata_file(base, {**entries_of(base), **entries})
    )


def metadata_file(columns: pq.FileMetaData, entries: Mapping[bytes, bytes]) -> bytes:
    """Return the content of a Parquet file with another file's columns and no rows.

    Spark reads the dataset's columns from this file, so their stored types are preserved.
    """
    described = columns.schema
    stored = {described.column(number).physical_type for number in range(len(described))}
    # Replace the schema's metadata, because Arrow has removed entries from it.
    schema = described.to_arrow_schema().remove_metadata().with_metadata(dict(entries))
    file = BytesIO()
    pq.write_metadata(schema, file, use_deprecated_int96_timestamps="INT96" in stored)
    return file.getvalue()


def write_metadata_file(location: Location, name: str, content: bytes) -> None:
    """Write a metadata file atomically, and remove Hadoop's checksum of the file it replaces.

    Hadoop's local file system checks files against ``.<name>.crc`` if it exists, and fails for
    files that other programs have rewritten.
    """
    if location.is_local_disk:
        location.remove(f".{name}.crc")
    location.write(name, [content])


def _damaged(url: str) -> errors.CorruptDatasetError:
    return errors.CorruptDatasetError(
        f"{url} was truncated, or is not a Parquet file: its writer was probably interrupted. The "
        "rows next to it are not affected. Remove it, and write it again with "
        "generate_petastorm_metadata(spark, url, 'package.module.MySchema'), or with an empty "
        "block: with materialize_dataset(spark, url, MySchema): pass",
        url=url,
    )


def index_entries(source: ParquetDataset, indexes: bytes) -> dict[bytes, bytes]:
    """Return the ``_common_metadata`` entries for a dataset's pickled indexes."""
    return {
        ROW_GROUPS_INDEX_KEY: indexes,
        ROW_GROUPS_INDEX_NOTE_KEY: _note(source, indexes),
        ROW_GROUPS_PER_FILE_KEY: counts_entry(source),
    }


def has_stale_index(source: ParquetDataset, entries: Mapping[bytes, bytes]) -> bool:
    """Whether the dataset's row groups differ from the ones that were indexed.

    For indexes written by Petastorm, only a change in the number of row groups is detected.
    """
    indexes = entries.get(ROW_GROUPS_INDEX_KEY)
    if indexes is None:
        return False
    note = entries.get(ROW_GROUPS_INDEX_NOTE_KEY, b"")
    if note.endswith(_digest(indexes)):
        return note != _note(source, indexes)
    counts = row_group_counts(entries)
    return counts is not None and sum(counts.values()) != len(source.row_groups)


def row_group_counts(entries: Mapping[bytes, bytes]) -> dict[str, int] | None:
    """Return the number of row groups that the metadata states for each file; None if missing."""
    try:
        found = parse_json(entries[ROW_GROUPS_PER_FILE_KEY])
        return {str(name): int(count) for name, count in found.items()}
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def counted_row_groups(source: ParquetDataset) -> dict[str, int]:
    """Return the number of row groups in each file, 0 for empty files."""
    counts = {file.name: 0 for file in source.files}
    for group in source.row_groups:
        counts[group.path] += 1
    return counts


def counts_entry(source: ParquetDataset) -> bytes:
    """Return the metadata entry with the number of row groups in each file."""
    return json.dumps(counted_row_groups(source)).encode("utf-8")


def _note(source: ParquetDataset, indexes: bytes) -> bytes:
    """Return digests of the row groups and of the indexes; copying the files keeps them valid."""
    groups = [(group.path, group.ordinal, group.num_rows) for group in source.row_groups]
    return _digest(repr(groups).encode()) + b" " + _digest(indexes)


def _digest(content: bytes) -> bytes:
    """Return a digest of some content, which shows whether Petastorm has replaced it."""
    return hashlib.sha256(content).hexdigest()[:16].encode("ascii")


def write_petastorm_metadata(
    location: Location,
    unischema: Unischema,
    *,
    with_summary: bool = False,
    files_before: Collection[str] | None = None,
) -> None:
    """Write ``_common_metadata`` for all Parquet files under a directory.

    The file is written last and atomically. Row group counts come from the file footers, and files
    that appear during the write are included. Row group indexes are dropped if they were built for
    different row groups. ``_metadata``, a summary of all footers, is written if it is requested or
    already exists, because Petastorm ignores files that it does not list.

    Parameters
    ----------
    location : Location
        The directory.
    unischema : Unischema
        The schema that encoded the rows.
    with_summary : bool
        Whether to write ``_metadata``.
    files_before : collection of str, optional
        Names of the files that existed before the rows were written. A dataset with a different
        schema is not extended. None replaces the existing schema.

    Raises
    ------
    DatasetNotFoundError
        If there are no Parquet files; also OSError.
    CorruptDatasetError
        If a file is not a Parquet file, or its columns differ from the other files'.
    MissingColumnError
        If a field has no column.
    PetastormMetadataGenerationError
        If a column cannot hold its field, a different schema is stored, or no summary is possible.
    InvalidArgumentError
        If the schema has a codec that is not one of Petastorm's.
    """
    pickled = dump_unischema(unischema)
    for _ in range(_MOST_ROUNDS):
        source = open_written(location)
        check_columns(source, unischema)
        try:
            entries = entries_of(read_metadata(location))
        except errors.CorruptDatasetError:
            entries = {}
        if files_before is not None:
            _check_same_schema(source, entries, unischema, files_before)
        _write(source, entries, pickled, with_summary)
        if has_same_files(source):
            return


def open_written(location: Location) -> ParquetDataset:
    """Open the Parquet files in a directory; wait a moment for files that are still being written.

    Raises
    ------
    DatasetNotFoundError
        If there are no files; also OSError.
    CorruptDatasetError
        If a file is not a Parquet file, or its columns differ from the other files'.
    """
    for _ in range(_FOOTER_ROUNDS - 1):
        with suppress(errors.CorruptDatasetError):
            return _open_written(location)
        time.sleep(_FOOTER_PAUSE_S)
    return _open_written(location)


def _open_written(location: Location) -> ParquetDataset:
    source = open_stored(
        location.url,
        storage_options=location.storage_options,
        filesystem=location.filesystem,
        may_be_unfinished=True,  # other `materialize_dataset` blocks may be writing
    )
    check_no_table(source)
    return check_parquet(source)


def check_parquet(source: SampleDataset) -> ParquetDataset:
    """Return a dataset whose files are Parquet.

    Raises
    ------
    InvalidArgumentError
        If they are not.
    """
    if not isinstance(source, ParquetDataset):
        raise errors.InvalidArgumentError(
            f"{source.url} is {what_is_at(source.url)}, not Parquet, so it cannot be converted and "
            "has no metadata of Petastorm: read it with mdstorm.open_dataset, make_reader or "
            "make_batch_reader"
        )
    return source


def check_no_table(source: SampleDataset) -> None:
    """Raise UnsupportedTableError for a table, whose files change with each version.

    Raises
    ------
    UnsupportedTableError
        If the source is a table.
    """
    if source.table_version is not None:
        raise errors.UnsupportedTableError(
            f"{source.url} is a table: Petastorm's metadata and indexes describe files, and "
            "a table's files change with each version. Convert it first, with mdstorm convert",
            url=source.url,
        )


def check_columns(source: ParquetDataset, unischema: Unischema) -> None:
    """Raise an error unless the columns of Parquet files can hold the fields of a schema.

    Raises
    ------
    MissingColumnError
        If a field has no column.
    PetastormMetadataGenerationError
        If a field's codec produces bytes, and its column has a different type.
    UnsupportedTableError
        If the files differ in the column of a field.
    """
    remedy = (
        "Write the rows with schema.as_spark_schema(), and move files that do not belong to the "
        "dataset elsewhere"
    )
    check_stored(unischema, source.url, source.arrow_schema.names, remedy)
    source.schema.check_readable(unischema.fields, source.url)
    for name, field in unischema.fields.items():
        type_ = source.arrow_schema.field(name).type
        is_bytes = pa.types.is_binary(type_) or pa.types.is_large_binary(type_)
        if type(field.codec) in _ENCODED and not is_bytes:
            raise errors.PetastormMetadataGenerationError(
                f"column {name!r} in {source.url} is {type_}, but {field.codec} stores bytes. "
                "Encode the rows with dict_to_spark_row(schema, row)"
            )


def check_stored(unischema: Unischema, url: str, names: Sequence[str], remedy: str) -> None:
    """Raise MissingColumnError with `remedy` in its message unless `names` contains every field."""
    missing = [name for name in unischema.fields if name not in names]
    if missing:
        raise errors.MissingColumnError(
            f"{url} has no column {missing[0]!r}, which the schema declares: it has {list(names)}. "
            f"{remedy}",
            column=missing[0],
        )


def _check_same_schema(
    source: ParquetDataset,
    entries: dict[bytes, bytes],
    unischema: Unischema,
    files_before: Collection[str],
) -> None:
    """Raise an error if files with different schemas would share the metadata of one schema."""
    try:
        stored = load_unischema(entries[UNISCHEMA_KEY])
    except (KeyError, errors.UnsafePickleError):  # there is no schema, or it cannot be read
        return
    before, now = ({n: dump_field(f) for n, f in s.fields.items()} for s in (stored, unischema))
    differing = sorted(n for n in before.keys() | now.keys() if before.get(n) != now.get(n))
    files = {file.name for file in source.files}
    described = {*files_before, *(row_group_counts(entries) or {})} & files
    if not differing or not described or described == files:
        return
    raise errors.PetastormMetadataGenerationError(
        f"{source.url} has {len(described)} files with the schema {stored._name!r}, and new files "
        f"with {unischema._name!r}, which differs in the fields {differing}. The metadata is for "
        f"{stored._name!r}. Remove the new files, {sorted(files - described)}, and write their "
        "rows to another directory, or replace all files with mode('overwrite'); if one schema "
        "fits all files, store it with generate_petastorm_metadata"
    )


def _write(
    source: ParquetDataset, entries: dict[bytes, bytes], pickled: bytes, with_summary: bool
) -> None:
    location = source.location
    summarised = with_summary or location.exists(SUMMARY_METADATA)
    footers = source.read_file_metadata(source.files if summarised else source.files[:1])
    is_other = row_group_counts(entries) != counted_row_groups(source)
    if is_other or has_stale_index(source, entries):
        dropped = (ROW_GROUPS_INDEX_KEY, ROW_GROUPS_INDEX_NOTE_KEY)
        entries = {key: value for key, value in entries.items() if key not in dropped}
    ours = {UNISCHEMA_KEY: pickled, ROW_GROUPS_PER_FILE_KEY: counts_entry(source)}
    common = metadata_file(footers[0], {**entries, **entries_of(footers[0]), **ours})
    if summarised:
        write_metadata_file(location, SUMMARY_METADATA, _summary(source, footers))
    write_metadata_file(location, COMMON_METADATA, common)


def _summary(source: ParquetDataset, footers: list[pq.FileMetaData]) -> bytes:
    """Return the content of ``_metadata``: the row groups of all files."""
    for file, footer in zip(source.files, footers, strict=True):
        footer.set_file_path(file.name)
    summary = footers[0]
    for file, footer in list(zip(source.files, footers, strict=True))[1:]:
        try:
            summary.append_row_groups(footer)
        except (RuntimeError, pa.ArrowException) as error:
            raise errors.PetastormMetadataGenerationError(
                f"{source.url} cannot have {SUMMARY_METADATA}: {file.name} stores its columns "
                f"differently from {source.files[0].name} ({error}). Use "
                f"use_summary_metadata=False, and remove {SUMMARY_METADATA} if it exists"
            ) from error
    content = BytesIO()
    summary.write_metadata_file(content)
    return content.getvalue()
