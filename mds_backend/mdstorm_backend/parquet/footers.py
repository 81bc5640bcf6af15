"""Read Parquet footers, which describe files and their row groups.

A footer is a struct in Thrift's compact protocol. pyarrow also reads footers, but for damaged
column statistics, its library throws an exception that nothing catches, which ends the process. So
column statistics are read here.
"""

from __future__ import annotations

import errno
import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from mdstorm_backend.base import map_files, parse_json
from mdstorm_backend.cache import CacheOptions
from mdstorm_backend.cache.download import with_retries
from mdstorm_backend.errors import (
    CorruptDatasetError,
    DatasetChangedError,
    DatasetNotFoundError,
    InvalidArgumentError,
    UnsupportedTableError,
)
from mdstorm_backend.format.index import INDEX_NAME
from mdstorm_backend.format.values.arrow_types import holds_variants
from mdstorm_backend.storage import Location, PinnedFile, Pins, tag_of, version_of

_logger = logging.getLogger(__name__)

#: Extensions of files in other formats, which other libraries read.
_OTHER_FORMATS = (
    ".csv",
    ".csv.gz",
    ".tsv",
    ".json",
    ".jsonl",
    ".avro",
    ".orc",
    ".feather",
    ".arrow",
)
#: Extensions of images, which rows of a table name.
_IMAGES = (".jpg", ".jpeg", ".png", ".gif", ".webp", ".bmp", ".tif", ".tiff", ".heic")


@dataclass(frozen=True, slots=True)
class ParquetFileInfo:
    """A file in a Parquet dataset.

    Attributes
    ----------
    name : str
        Path relative to the dataset's location.
    size : int
        Size in bytes.
    identity : str
        State of the content according to the storage: a modification time, a tag, or both; "" if
        the storage provides neither.
    table_version : int or None
        The version of a table whose manifest or log states the size; None if it was listed.
    tag : str
        The entity tag that the store listed; "" if it has none.
    """

    name: str
    size: int
    identity: str = ""
    table_version: int | None = None
    tag: str = ""

    @classmethod
    def of(cls, name: str, info: Mapping[str, Any]) -> ParquetFileInfo:
        """Return the file that fsspec describes by `info`."""
        return cls(name, int(info["size"]), version_of(info), tag=tag_of(info))


def directories_of(files: Iterable[ParquetFileInfo]) -> set[str]:
    """Return the paths of the directories that hold the files, relative to their location."""
    return {file.name.rpartition("/")[0] or "." for file in files}


@dataclass(frozen=True, slots=True)
class RowGroup:
    """One shard: a row group, or all row groups in a small table file.

    Attributes
    ----------
    file_url : str
        URL of the file.
    path : str
        Path of the file relative to the dataset's location.
    ordinal : int or None
        Number of the row group in the file; None for all row groups in the file.
    num_rows : int
        Number of rows that are part of the data, without deleted rows.
    partition : mapping of str to value
        Values of the partition columns, None for null: integers or strings for Hive partitions,
        Python values of the columns' types for tables.
    nbytes : int
        Uncompressed size of the values in bytes.
    dead : array of int64, or None
        Positions within the shard of rows that a deletion vector removed, ascending.
    """

    file_url: str
    path: str
    ordinal: int | None
    num_rows: int
    partition: Mapping[str, Any] = field(default_factory=dict)
    nbytes: int = 0
    dead: npt.NDArray[np.int64] | None = field(default=None, compare=False)

    @property
    def stored_rows(self) -> int:
        """Number of rows in the file, including deleted rows."""
        return self.num_rows + (0 if self.dead is None else len(self.dead))


#: Numbers of the fields to keep, each with its type: ``int``, ``bytes``, a dict of the fields to
#: keep in a struct, or a list of one such dict for a list of structs. Fields with other types
#: are left out.
WantedFields: TypeAlias = dict[int, Any]
#: The fields of a struct by number: integers, bytes, structs and lists of structs.
Struct: TypeAlias = dict[int, Any]

#: Operating system errors that occur if a path in a table's log does not lead to a file.
_NO_FILE = {errno.EINVAL, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG}
#: Field numbers in a ``SchemaElement``, and in its ``LogicalType``.
_TYPE, _CHILDREN, _LOGICAL, _VARIANT = 1, 5, 10, 16
_ELEMENT: WantedFields = {_TYPE: int, _CHILDREN: int, _LOGICAL: {_VARIANT: {}}}
#: Field numbers in a ``ColumnChunk``, in its ``ColumnMetaData`` and in the ``Statistics`` of that.
METADATA, _CRYPTO = 3, 8
VALUES, STATISTICS = 5, 12
NULLS, MAX, MIN = 3, 5, 6
_CHUNK: WantedFields = {
    METADATA: {VALUES: int, STATISTICS: {NULLS: int, MAX: bytes, MIN: bytes}},
    _CRYPTO: {},
}
#: Field numbers in a footer, and the fields to keep: the schema, row groups and their columns.
_SCHEMA, _ROW_GROUPS = 2, 4
_FOOTER_FIELDS: WantedFields = {_SCHEMA: [_ELEMENT], _ROW_GROUPS: [{1: [_CHUNK]}]}
#: Key of Spark's schema, as JSON, in the metadata of files that Spark wrote.
_SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
#: The last bytes of a file, and those of a file whose footer is encrypted.
_MAGIC, _ENCRYPTED = b"PAR1", b"PARE"
#: The advice for encrypted data.
READ_WITH_KEYS = (
    "mdstorm has no keys: read it with Spark or pyarrow, which can have them, and write the rows "
    "without encryption, or pass Spark's DataFrame to make_spark_converter"
)
#: Key of the Arrow schema that some writers store beside Parquet's.
_ARROW_SCHEMA = b"ARROW:schema"
#: Number of bytes to read first at the end of a file; nearly all footers are shorter.
_TAIL = 64 << 10


@dataclass(frozen=True)
class Footer:
    """The parts of a file's footer that readers need.

    Attributes
    ----------
    schema : pyarrow.Schema
        The file's columns.
    rows, nbytes : tuple of int
        Number of rows and uncompressed bytes in each row group.
    nulls : dict of str to (int or None)
        Null counts of the columns that have nulls; None if the statistics do not have them, and for
        arrays, whose statistics count null rows, null elements and empty arrays alike.
    lengths : dict of str to set of int
        Lengths of a column's arrays: the mean length in each row group, rounded down and up.
    unsupported : dict of str to str
        Names for the types of columns that cannot be read although pyarrow knows their types: at
        least a part is encrypted, or a variant.
    digest : str
        Identifies the bytes of the footer, which describe the places, sizes and statistics of all
        columns; empty for a file whose footer is not read.
    """

    schema: pa.Schema
    rows: tuple[int, ...]
    nbytes: tuple[int, ...]
    nulls: dict[str, int | None]
    lengths: dict[str, set[int]]
    unsupported: dict[str, str] = field(default_factory=dict)
    digest: str = ""


def read_footers(
    location: Location,
    files: Sequence[ParquetFileInfo],
    options: CacheOptions,
    pins: Pins | None = None,
) -> list[Footer]:
    """Read the footers of several files in parallel.

    Parameters
    ----------
    location : Location
        The directory that contains the files.
    files : sequence of ParquetFileInfo
        The files.
    options : CacheOptions
        Retries and timeout for remote files.
    pins : Pins, optional
        Pins the files.

    Raises
    ------
    DatasetNotFoundError
        If a file is missing.
    DatasetChangedError
        If a file is not as pinned.
    CorruptDatasetError
        If a file is not a Parquet file.
    UnsupportedTableError
        If a footer is encrypted, or pyarrow does not support one of its types.
    CredentialsError, StorageError
        If the storage denies access or fails.
    """
    return map_files(lambda file: _read_footer(location, file, options, pins), files)


def read_chunks(
    location: Location, file: ParquetFileInfo, options: CacheOptions, pins: Pins | None = None
) -> tuple[pq.FileMetaData, list[Struct], list[list[Struct]], str]:
    """Read a footer and the column statistics of each row group; for errors see `read_footers`.

    Returns
    -------
    metadata : pyarrow.parquet.FileMetaData
        The footer. Do not access columns of its row groups, because pyarrow ends the process if
        they are damaged.
    elements : list of Struct
        The schema's ``SchemaElement`` structs, each before its children, with the fields above.
    chunks : list of list of Struct
        For each row group, the ``ColumnChunk`` of each column, with the fields above.
    digest : str
        Identifies the bytes of the footer.
    """
    url = location.file_url(file.name)
    tail = _tail(location, file, options, pins)
    try:
        metadata = parsed(pa.py_buffer(tail), url)
    except CorruptDatasetError:
        check_size(location, file)
        raise
    try:
        # The footer's length includes a signature if columns are encrypted.
        length = int.from_bytes(tail[-8:-4], "little")
        footer = tail[-8 - length : -8]
        found = read_struct(footer, _FOOTER_FIELDS)
        chunks = [group[1] for group in found.get(_ROW_GROUPS, [])]
        _check_counts(metadata, chunks)
    except (KeyError, ValueError) as error:
        raise CorruptDatasetError.of_file(url, f"has a damaged footer: {error}") from error
    return metadata, found[_SCHEMA], chunks, hashlib.blake2s(footer, digest_size=8).hexdigest()


def _check_counts(metadata: pq.FileMetaData, chunks: Sequence[Sequence[Struct]]) -> None:
    """Raise ValueError for contradictory counts: a column needs a value or null for each row."""
    leaves = [metadata.schema.column(number) for number in range(metadata.num_columns)]
    may_be_more = [leaf.max_repetition_level > 0 for leaf in leaves]
    for number, columns in enumerate(chunks):
        rows = metadata.row_group(number).num_rows
        if rows < 0 or metadata.row_group(number).total_byte_size < 0:
            raise ValueError(f"row group {number} declares a negative number of rows or bytes")
        for chunk, more in zip(columns, may_be_more, strict=True):
            stored = chunk[METADATA]
            values, nulls = stored[VALUES], stored.get(STATISTICS, {}).get(NULLS) or 0
            if values < rows or (values > rows and not more) or not 0 <= nulls <= values:
                raise ValueError(
                    f"row group {number} declares {rows} rows, but {values} values in a column, "
                    f"{nulls} of which are null"
                )


def _read_footer(
    location: Location, file: ParquetFileInfo, options: CacheOptions, pins: Pins | None
) -> Footer:
    """Read a footer, with null counts from statistics and array lengths from value counts."""
    metadata, elements, chunks, digest = read_chunks(location, file, options, pins)
    schema = metadata.schema.to_arrow_schema()
    groups = [metadata.row_group(number) for number in range(len(chunks))]
    rows = tuple(group.num_rows for group in groups)
    owners, variants = _owners(elements)
    if len(owners) != metadata.num_columns or max(owners, default=-1) >= len(schema):
        url = location.file_url(file.name)
        raise CorruptDatasetError.of_file(url, "has a footer whose schema contradicts itself")
    lacking = {field.name for field in schema} - {schema.field(place).name for place in owners}
    nulls: dict[str, int | None] = dict.fromkeys(lacking, sum(rows))
    lengths: dict[str, set[int]] = {}
    unsupported = dict.fromkeys((schema.field(place).name for place in variants), "variant")
    unsupported |= dict.fromkeys(_spark_variants(metadata), "variant")
    for number, owner in enumerate(owners):
        column, leaf = schema.field(owner), metadata.schema.column(number)
        name = column.name
        if any(_CRYPTO in columns[number] for columns in chunks):
            unsupported[name] = f"{column.type} (encrypted)"
        if leaf.max_definition_level == 0:
            continue
        is_scalar = not pa.types.is_nested(column.type)
        for num_rows, columns in zip(rows, chunks, strict=True):
            chunk = columns[number][METADATA]
            count = chunk.get(STATISTICS, {}).get(NULLS)
            if count is None or (count and not is_scalar):
                nulls[name] = None
            elif count and nulls.get(name, 0) is not None:
                nulls[name] = (nulls.get(name) or 0) + count
            if leaf.max_repetition_level == 1 and num_rows:
                mean, rest = divmod(chunk[VALUES], num_rows)
                lengths.setdefault(name, set()).update({mean, mean + bool(rest)})
    nbytes = tuple(group.total_byte_size for group in groups)
    return Footer(schema, rows, nbytes, nulls, lengths, unsupported, digest)


def _owners(elements: Sequence[Struct]) -> tuple[list[int], set[int]]:
    """Return the column that each Parquet column belongs to, and the columns that hold variants.

    A struct may have no fields, and therefore no Parquet column.
    """
    owners: list[int] = []
    variants: set[int] = set()
    place, expected = -1, 0
    for element in elements[1:]:
        if not expected:
            place, expected = place + 1, 1
        children = element.get(_CHILDREN, 0)
        expected += children - 1
        if _TYPE in element and not children:
            owners.append(place)
        if _VARIANT in element.get(_LOGICAL, {}):
            variants.add(place)
    return owners, variants


def _spark_variants(metadata: pq.FileMetaData) -> list[str]:
    """Return the columns that hold variants according to the schema that Spark stored."""
    stored = (metadata.metadata or {}).get(_SPARK_SCHEMA)
    if stored is None:
        return []
    try:
        fields = parse_json(stored)["fields"]
        return [str(each["name"]) for each in fields if holds_variants(each["type"])]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        _logger.debug("the schema of Spark in a Parquet file is not used (%r)", error)
        return []


def _tail(
    location: Location, file: ParquetFileInfo, options: CacheOptions, pins: Pins | None
) -> bytes:
    """Read the end of a file, including its whole footer."""
    if file.size == 0:
        check_size(location, file)
        url = location.file_url(file.name)
        raise CorruptDatasetError(
            f"{url} is empty, without even a Parquet footer. Copy the file again, write the "
            "dataset again, or remove the file if nothing is missing",
            url=url,
        )
    try:
        if pins is not None:
            return _pinned_tail(location, file, pins)
        return tail_of(partial(_read_last, location, file, options), file.size)
    except OSError as error:
        url = location.file_url(file.name)
        if error.errno in _NO_FILE:
            raise CorruptDatasetError.of_file(url, f"is not a file ({error.strerror})") from error
        if not isinstance(error, FileNotFoundError):
            raise
        if file.table_version is not None:
            raise missing_file(url, file.table_version) from error
        raise DatasetNotFoundError(
            f"{url} was deleted while the dataset was being opened: wait until the job that writes "
            "to it has ended",
            url=url,
        ) from error


def tail_of(read_last: Callable[[int], bytes], size: int) -> bytes:
    """Read the end of a file of `size` bytes, including its whole footer.

    Parameters
    ----------
    read_last : callable
        Returns a number of bytes at the end of the file.
    size : int
        The size of the file.
    """
    tail = read_last(min(size, _TAIL))
    needed = int.from_bytes(tail[-8:-4], "little") + 8
    return read_last(needed) if len(tail) < needed <= size else tail


def _read_last(
    location: Location, file: ParquetFileInfo, options: CacheOptions, count: int
) -> bytes:
    def read() -> bytes:
        return location.read_range(file.name, file.size - count, file.size)

    return read() if location.is_local_disk else with_retries(location, file.name, options, read)


def _pinned_tail(location: Location, file: ParquetFileInfo, pins: Pins) -> bytes:
    opened = PinnedFile(pins, file.name)
    if opened.size != file.size:
        url = location.file_url(file.name)
        raise DatasetChangedError(
            f"{url} had {file.size:,} bytes when the directory was listed, and now has "
            f"{opened.size:,}: wait until the job that writes to it has ended",
            url=url,
        )
    return tail_of(opened.read_last, file.size)


def check_size(location: Location, file: ParquetFileInfo) -> None:
    """Check that a table records the size that its file has, if that is a Parquet file.

    Other files were truncated or replaced, as far as can be known.

    Raises
    ------
    UnsupportedTableError
        If the sizes differ.
    """
    if file.table_version is None:
        return
    size = location.size(file.name)
    if size is None or size == file.size:
        return
    if location.read_range(file.name, max(size - len(_MAGIC), 0), size) == _MAGIC:
        url = location.file_url(file.name)
        raise UnsupportedTableError(
            f"{url} has {size} bytes, and the table's manifest or log says {file.size}: the file "
            "was replaced, or the size was never right. Open the newest version, or write the "
            "table's files again with Spark, for Iceberg with CALL system.rewrite_data_files",
            url=url,
        )


def parsed(content: pa.Buffer, url: str) -> pq.FileMetaData:
    """Parse a Parquet file's footer from `content`, which is the whole file or its end.

    Raises
    ------
    CorruptDatasetError
        If there is no valid footer.
    UnsupportedTableError
        If the footer is encrypted, or pyarrow does not support one of its types.
    InvalidArgumentError
        If the file's name shows that it has another format.
    """
    try:
        return _metadata_of(content)
    # UnicodeDecodeError is raised for an invalid name.
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        if content[-4:].to_pybytes() == _ENCRYPTED:
            raise UnsupportedTableError(
                f"{url} is an encrypted Parquet file, and {READ_WITH_KEYS}", url=url
            ) from error
        if isinstance(error, pa.ArrowNotImplementedError) or "Unrecognized type" in str(error):
            raise UnsupportedTableError(
                f"{url} holds columns of a type that pyarrow {pa.__version__} does not support "
                f"({error}), such as 128-bit integers or, before pyarrow 16, string views: install "
                "a newer pyarrow, or write the columns as other types",
                url=url,
            ) from error
        if url.endswith(f"/{INDEX_NAME}"):
            raise InvalidArgumentError(
                f"{url} belongs to an MDS dataset, which is not Parquet and needs no conversion: "
                "pass only the URL of its directory to open_dataset or make_batch_reader, or "
                "several MDS datasets as streams of a StreamingDataset"
            ) from error
        if url.endswith(_OTHER_FORMATS):
            raise InvalidArgumentError(
                f"{url} is not a Parquet file, as its name shows: read it with Spark, pandas or "
                "pyarrow, and write the rows as Parquet, or pass Spark's DataFrame to "
                "make_spark_converter"
            ) from error
        if url.lower().endswith(_IMAGES):
            raise InvalidArgumentError(
                f"{url} is an image, as its name shows, and not a Parquet file: open a table that "
                "has the paths of the images, and pass files={…}. Next to Parquet files, images "
                "must be in a folder whose name begins with '_' or '.'"
            ) from error
        raise CorruptDatasetError(
            f"{url} is not a Parquet file, or was truncated ({error}). Copy it again or write the "
            "dataset again; if it does not belong to the dataset, move it elsewhere, or rename it "
            "to begin with '_' or '.'",
            url=url,
        ) from error


def _metadata_of(content: pa.Buffer) -> pq.FileMetaData:
    """Return a footer, without the Arrow schema in it if pyarrow cannot use that.

    pyarrow casts list views to invalid lists, and refuses UUIDs in columns of binary values, as
    delta-rs stores them.
    """
    try:
        metadata = pq.read_metadata(pa.BufferReader(content))
        if "list_view" not in str(metadata.schema.to_arrow_schema().types):
            return metadata
    except pa.ArrowInvalid as error:
        if "Invalid storage type" not in str(error):
            raise
    end = int.from_bytes(content[-8:-4].to_pybytes(), "little") + 8
    footer = content[-end:].to_pybytes().replace(_ARROW_SCHEMA, _ARROW_SCHEMA.lower())
    return pq.read_metadata(pa.BufferReader(footer))


def missing_file(url: str, version: int) -> DatasetNotFoundError:
    """Return the error for a missing file that a table version refers to."""
    return DatasetNotFoundError(
        f"{url} is missing, but is part of version {version} of the table: VACUUM or snapshot "
        "expiration may have removed it. Open the newest version, or restore the file",
        url=url,
    )


_NOTHING: WantedFields = {}
_MOST_LEVELS = 24  # Parquet's own structs have fewer than ten levels

_BOOLEANS, _BYTE, _DOUBLE, _BINARY, _LIST, _STRUCT = (1, 2), 3, 7, 8, 9, 12


def read_struct(data: bytes, wanted: WantedFields) -> Struct:
    """Return the wanted fields of the struct at the beginning of `data`.

    Raises
    ------
    ValueError
        If `data` does not begin with a struct of types that Parquet has.
    """
    try:
        return _struct(data, 0, wanted, 0)[0]
    except IndexError as error:
        raise ValueError("it ends too early") from error


def _struct(data: bytes, at: int, wanted: WantedFields, level: int) -> tuple[Struct, int]:
    fields: Struct = {}
    number = 0
    while head := data[at]:
        at += 1
        kind = head & 0x0F
        if head > 0x0F:
            number += head >> 4
        else:
            number, at = _integer(data, at)
        if kind in _BOOLEANS:  # the type itself is the value, true or false
            continue
        keep = wanted.get(number)
        value, at = _value(data, at, kind, keep, level)
        if keep is not None and isinstance(value, keep if type(keep) is type else type(keep)):
            fields[number] = value
    return fields, at + 1


def _value(data: bytes, at: int, kind: int, keep: Any, level: int) -> tuple[Any, int]:
    """Return a value and the position where it ends."""
    if _BYTE < kind < _DOUBLE:
        return _integer(data, at)
    if kind == _BINARY:
        size, at = _size(data, at)
        return data[at : at + size], at + size
    if level > _MOST_LEVELS:
        raise ValueError("it is nested too deeply")
    if kind == _STRUCT:
        return _struct(data, at, keep if isinstance(keep, dict) else _NOTHING, level + 1)
    if kind == _LIST:
        size, kind = data[at] >> 4, data[at] & 0x0F
        at += 1
        if size == 0x0F:
            size, at = _size(data, at)
        inner = keep[0] if isinstance(keep, list) else None
        found: list[Struct] = []
        for _ in range(size):
            data[at]  # raises IndexError if the size is wrong, as each item has at least one byte
            one, at = _value(data, at, kind, inner, level + 1)
            if inner is not None and kind == _STRUCT:
                found.append(one)
        return found, at
    if kind == _BYTE or kind in _BOOLEANS:
        return None, at + 1
    if kind == _DOUBLE:
        return None, at + 8
    raise ValueError(f"it holds a value of type {kind}, which Parquet does not have")


def _integer(data: bytes, at: int) -> tuple[int, int]:
    value, at = (data[at], at + 1) if data[at] < 0x80 else _size(data, at)
    return (value >> 1) ^ -(value & 1), at


def _size(data: bytes, at: int) -> tuple[int, int]:
    """Read a variable-length integer."""
    value = shift = 0
    while (byte := data[at]) > 0x7F:
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if shift > 63:
            raise ValueError("it holds a number with more than 64 bits")
    return value | byte << shift, at + 1
