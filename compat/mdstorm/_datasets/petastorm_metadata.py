"""Write Petastorm's metadata beside Parquet files: their schema, and their row group counts."""

from __future__ import annotations

import time
from collections.abc import Collection
from contextlib import suppress
from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq

from mdstorm._datasets.common_metadata import (
    COMMON_METADATA,
    ROW_GROUPS_INDEX_KEY,
    ROW_GROUPS_INDEX_NOTE_KEY,
    ROW_GROUPS_PER_FILE_KEY,
    SUMMARY_METADATA,
    UNISCHEMA_KEY,
    counted_row_groups,
    counts_entry,
    entries_of,
    has_stale_index,
    metadata_file,
    read_metadata,
    row_group_counts,
    write_beside,
)
from mdstorm._datasets.decoded_source import check_stored
from mdstorm._pickles.schema_pickle import dump_field, dump_unischema, load_unischema
from mdstorm.codecs import CompressedImageCodec, CompressedNdarrayCodec, NdarrayCodec
from mdstorm.errors import (
    CorruptDatasetError,
    PetastormMetadataGenerationError,
    UnsafePickleError,
    UnsupportedTableError,
)
from mdstorm.unischema import Unischema
from mdstorm_backend.parquet import (
    ParquetDataset,
    has_same_files,
    open_parquet,
    read_file_metadata,
)
from mdstorm_backend.storage import Location

#: Other blocks may add files meanwhile, so metadata are written until they name all files. This
#: ends, since the block that adds the last file writes metadata after it.
_MOST_ROUNDS = 20
#: How often to look for the footer of a file that another process may still be writing.
_FOOTER_ROUNDS = 3
_FOOTER_PAUSE_S = 0.1

_ENCODED = (CompressedImageCodec, CompressedNdarrayCodec, NdarrayCodec)


def write_petastorm_metadata(
    location: Location,
    unischema: Unischema,
    *,
    with_summary: bool = False,
    files_before: Collection[str] | None = None,
) -> None:
    """Write ``_common_metadata`` for the Parquet files in a directory and below, which stay.

    It is written last, and atomically. The number of row groups of each file is that of its footer,
    and files that come while it is written are in it, too. Indexes of row groups are dropped if
    they were built for others. ``_metadata``, a summary of all footers, is written if it is asked
    for or there already, since Petastorm reads no file that it lacks.

    Parameters
    ----------
    location : Location
        The directory.
    unischema : Unischema
        The schema that encoded the rows.
    with_summary : bool
        Whether to write ``_metadata``.
    files_before : collection of str, optional
        Names of files that were there before rows were written: a dataset of another schema is not
        extended. None replaces the schema that there is.

    Raises
    ------
    DatasetNotFoundError
        If there are no Parquet files; also OSError.
    CorruptDatasetError
        If a file is not a Parquet file, or its columns are not those of the others.
    MissingColumnError
        If a field has no column.
    PetastormMetadataGenerationError
        If a column cannot hold its field, another schema was stored, or no summary is possible.
    InvalidArgumentError
        If the schema has a codec that is not one of Petastorm's.
    """
    pickled = dump_unischema(unischema)
    for _ in range(_MOST_ROUNDS):
        source = open_written(location)
        check_columns(source, unischema)
        entries = _stored_entries(location)
        if files_before is not None:
            _check_same_schema(source, entries, unischema, files_before)
        _write(source, entries, pickled, with_summary)
        if has_same_files(source):
            return


def open_written(location: Location) -> ParquetDataset:
    """Open the Parquet files in a directory; waits a moment for one that lacks its footer yet.

    Raises
    ------
    DatasetNotFoundError
        If there are none; also OSError.
    CorruptDatasetError
        If a file is not a Parquet file, or its columns are not those of the others.
    """
    for _ in range(_FOOTER_ROUNDS - 1):
        with suppress(CorruptDatasetError):
            return _open(location)
        time.sleep(_FOOTER_PAUSE_S)
    return _open(location)


def _open(location: Location) -> ParquetDataset:
    source = open_parquet(
        location.url,
        storage_options=location.storage_options,
        filesystem=location.filesystem,
        may_be_unfinished=True,  # other blocks may write
    )
    check_no_table(source)
    return source


def check_no_table(source: ParquetDataset) -> None:
    """Refuse to keep metadata of the files of a Delta table, which later versions do not have.

    Raises
    ------
    UnsupportedTableError
        If it is one.
    """
    if source.table_version is not None:
        raise UnsupportedTableError(
            f"{source.url} is a Delta table: Petastorm's metadata and indexes describe files, and "
            "its files change with each version. Convert it first, with mdstorm convert",
            url=source.url,
        )


def check_columns(source: ParquetDataset, unischema: Unischema) -> None:
    """Raise an error unless the columns of Parquet files can hold the fields of a schema.

    Raises
    ------
    MissingColumnError
        If a field has no column.
    PetastormMetadataGenerationError
        If the codec of a field makes bytes, and its column is of another type.
    """
    remedy = (
        "Write the rows with schema.as_spark_schema(), and move files that do not belong to the "
        "dataset elsewhere"
    )
    check_stored(unischema, source.url, source.arrow_schema.names, remedy)
    for name, field in unischema.fields.items():
        type_ = source.arrow_schema.field(name).type
        is_bytes = pa.types.is_binary(type_) or pa.types.is_large_binary(type_)
        if type(field.codec) in _ENCODED and not is_bytes:
            raise PetastormMetadataGenerationError(
                f"column {name!r} in {source.url} is {type_}, but {field.codec} stores bytes. "
                "Encode the rows with dict_to_spark_row(schema, row)"
            )


def _stored_entries(location: Location) -> dict[bytes, bytes]:
    """Return the entries that are there; {} where they were only half written."""
    try:
        return entries_of(read_metadata(location))
    except CorruptDatasetError:
        return {}


def _check_same_schema(
    source: ParquetDataset,
    entries: dict[bytes, bytes],
    unischema: Unischema,
    files_before: Collection[str],
) -> None:
    """Refuse to describe rows of two schemas by one of them."""
    try:
        stored = load_unischema(entries[UNISCHEMA_KEY])
    except (KeyError, UnsafePickleError):  # none, or nothing that describes rows
        return
    before, now = ({n: dump_field(f) for n, f in s.fields.items()} for s in (stored, unischema))
    differing = sorted(n for n in before.keys() | now.keys() if before.get(n) != now.get(n))
    files = {file.name for file in source.files}
    described = {*files_before, *(row_group_counts(entries) or {})} & files
    if not differing or not described or described == files:
        return
    raise PetastormMetadataGenerationError(
        f"{source.url} holds {len(described)} files of the schema {stored._name!r}, whose fields "
        f"{differing} are not those of {unischema._name!r}, and new ones: "
        f"{sorted(files - described)}. Its metadata still describe the former. Remove the new "
        "ones, and write the rows with mode('overwrite') or to another directory; if one schema "
        "fits all files, store it with generate_petastorm_metadata"
    )


def _write(
    source: ParquetDataset, entries: dict[bytes, bytes], pickled: bytes, with_summary: bool
) -> None:
    location = source.location
    summarised = with_summary or location.exists(SUMMARY_METADATA)
    footers = read_file_metadata(source, source.files if summarised else source.files[:1])
    is_other = row_group_counts(entries) != counted_row_groups(source)
    if is_other or has_stale_index(source, entries):
        dropped = (ROW_GROUPS_INDEX_KEY, ROW_GROUPS_INDEX_NOTE_KEY)
        entries = {key: value for key, value in entries.items() if key not in dropped}
    ours = {UNISCHEMA_KEY: pickled, ROW_GROUPS_PER_FILE_KEY: counts_entry(source)}
    common = metadata_file(footers[0], {**entries, **entries_of(footers[0]), **ours})
    if summarised:
        write_beside(location, SUMMARY_METADATA, _summary(source, footers))
    write_beside(location, COMMON_METADATA, common)


def _summary(source: ParquetDataset, footers: list[pq.FileMetaData]) -> bytes:
    """Return the content of ``_metadata``: the row groups of all files."""
    for file, footer in zip(source.files, footers, strict=True):
        footer.set_file_path(file.name)
    summary = footers[0]
    for file, footer in list(zip(source.files, footers, strict=True))[1:]:
        try:
            summary.append_row_groups(footer)
        except (RuntimeError, pa.ArrowException) as error:
            raise PetastormMetadataGenerationError(
                f"{source.url} can have no {SUMMARY_METADATA}: {file.name} stores its columns "
                f"otherwise than {source.files[0].name} ({error}). Use use_summary_metadata=False, "
                f"and remove {SUMMARY_METADATA} if it is there"
            ) from error
    content = BytesIO()
    summary.write_metadata_file(content)
    return content.getvalue()
