"""`ParquetDataset`: an open Parquet dataset with row groups as shards, and their value bounds."""

from __future__ import annotations

import json
import logging
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from itertools import groupby
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from mdstorm_backend.base import cached_property, map_files
from mdstorm_backend.cache import CacheOptions
from mdstorm_backend.datasets import (
    Filters,
    Mask,
    SampleDataset,
    Term,
    describe_dataset,
)
from mdstorm_backend.display import Description
from mdstorm_backend.errors import CorruptDatasetError, CredentialsError
from mdstorm_backend.format import Column, Schema, plain_type
from mdstorm_backend.format.values.arrow_types import cast
from mdstorm_backend.parquet import footers
from mdstorm_backend.parquet.open_files import FileSource, OpenFiles, files_identity
from mdstorm_backend.parquet.parquet_shard import ParquetShard
from mdstorm_backend.parquet.partitions import partition_texts
from mdstorm_backend.parquet.stored_columns import StoredColumns, read_errors
from mdstorm_backend.read import OpenShards, fingerprints_of
from mdstorm_backend.storage import Location, Pins
from mdstorm_backend.tables.snapshot import TableField

_logger = logging.getLogger(__name__)

#: Bytes of unused decoded row groups to keep; at least one row group is kept. If an order mixes
#: more row groups than fit, they are decoded repeatedly.
KEPT_BYTES = 512 << 20


@dataclass(eq=False, repr=False)
class ParquetDataset(SampleDataset):
    """An open Parquet dataset. Thread-safe; pickles with its parsed footers.

    Parameters
    ----------
    url : str
        URL of the directory or file; several URLs are joined for display.
    location : Location
        Directory that contains all files, at any depth.
    files : tuple of ParquetFileInfo
        The files in order, including files without rows.
    row_groups : tuple of RowGroup
        The row groups in order, file by file.
    schema : Schema
        The columns, partition columns first, as they would be in an MDS dataset.
    arrow_schema : pyarrow.Schema
        The columns as stored in files and partitions.
    partition_columns : tuple of str
        Columns whose values are in directory names or in a table's log.
    left_out : mapping of str to pyarrow.DataType
        Columns in the files that cannot be read because of their types.
    fingerprint : str
        Identity of the content.
    cache : CacheOptions or None
        How remote files are downloaded to this machine.
    table_fields : mapping of str to TableField
        The columns of a table; empty for files that are not a table.
    table_version : int or None
        The version of a table, or the id of its snapshot; None for files that are not a table.
    table_location : Location or None
        Directory of a table, whose files may be elsewhere.
    starts : numpy.ndarray or None
        The `first_rows` of some row groups of a dataset; None for all row groups.
    root : Location or None
        The dataset's own directory, see `SampleDataset`; None for files, lists and patterns.
    pins : Pins or None
        The pins of files on a local disk; None for other files, and for a table, whose version
        identifies its files.
    former : str
        See `SampleDataset`.

    Attributes
    ----------
    shard_sizes, shard_bytes : tuple of int
        Number of rows and uncompressed bytes in each row group.
    """

    url: str
    location: Location
    files: tuple[footers.ParquetFileInfo, ...]
    row_groups: tuple[footers.RowGroup, ...]
    schema: Schema
    arrow_schema: pa.Schema
    partition_columns: tuple[str, ...]
    left_out: Mapping[str, pa.DataType]
    fingerprint: str
    cache: CacheOptions | None
    table_fields: Mapping[str, TableField] = field(default_factory=dict)
    table_version: int | None = None
    table_location: Location | None = None
    starts: npt.NDArray[np.int64] | None = None
    root: Location | None = None
    pins: Pins | None = None
    former: str = ""

    def __post_init__(self) -> None:
        self.shard_sizes = tuple(group.num_rows for group in self.row_groups)
        self.shard_bytes = tuple(group.nbytes for group in self.row_groups)
        state = f"{self.fingerprint} {self.files_identity()}".rstrip()
        files = {file.name: file for file in self.files}
        self._open_files = OpenFiles(FileSource(self.location, files, state, self.cache, self.pins))
        self._open_shards: OpenShards[ParquetShard] = OpenShards(kept=1, kept_bytes=KEPT_BYTES)

    def __reduce__(self) -> tuple[Any, ...]:
        return ParquetDataset, tuple(getattr(self, field.name) for field in fields(self))

    def _mdstorm_description(self, *, full: bool) -> Description:
        version = self.table_version
        further = [] if version is None else [("version", f"{version} of a table")]
        schema = self.schema if full else None
        found = describe_dataset(self, schema, shards="row group", further=further)
        return replace(found, line=[*found.line, *(" ".join(fact) for fact in further)])

    @property
    def is_mapped(self) -> bool:
        """Always False, since row groups have to be decoded."""
        return False

    def reopened(self) -> ParquetDataset | None:
        """Return the dataset for another reader, unless files were changed.

        On a local disk, the times of their directories are compared, and files when they are read.
        In a store or on a mount, each file is compared. A version of a table does not change.
        """
        if not self._has_same_files():
            return None
        other = self._without_open_shards()
        other._open_files = self._open_files.emptied()
        return other

    @cached_property
    def _directories(self) -> set[str]:
        return footers.directories_of(self.files)

    def _has_same_files(self) -> bool:
        if self.table_version is not None:
            return True
        if self.pins is not None:
            return self.pins.agree(self._directories)
        return all(map_files(self._is_as_opened, self.files))

    def _is_as_opened(self, file: footers.ParquetFileInfo) -> bool:
        try:
            return footers.ParquetFileInfo.of(file.name, self.location.stat(file.name)) == file
        except self.location.absences:
            return False

    def files_identity(self) -> str:
        """Identify a table's version, and the sizes, times and tags of the files."""
        return files_identity(self.table_version, self.files)

    @cached_property
    def stored_columns(self) -> StoredColumns:
        """How the columns are stored in the files."""
        return StoredColumns(self.arrow_schema, self.table_fields)

    @property
    def file_urls(self) -> list[str]:
        """URLs of the files in order, including files without rows."""
        return [self.location.file_url(file.name) for file in self.files]

    @property
    def file_sizes(self) -> tuple[int, ...]:
        """Bytes of each file."""
        return tuple(file.size for file in self.files)

    @property
    def columns_left_out(self) -> Mapping[str, pa.DataType]:
        """Columns in the files that cannot be read because of their types."""
        return self.left_out

    @cached_property
    def common_metadata(self) -> Mapping[bytes, bytes]:
        """Key-value metadata in the file ``_common_metadata``, or else in ``_metadata``.

        Empty if there is neither file, as for a list of files.

        Raises
        ------
        CorruptDatasetError
            If the file is not a Parquet file.
        """
        location = self.table_location or self.location
        for name in ("_common_metadata", "_metadata"):
            url = location.file_url(name)
            try:
                content = pa.py_buffer(location.read(name))
            except IsADirectoryError as error:
                raise CorruptDatasetError(f"{url} is a directory", url=url) from error
            except location.absences:
                continue
            except CredentialsError as error:
                # The credentials were valid for the table. Without the permission to list, S3
                # returns this error for missing files. Tables, unlike plain files, do not require
                # that permission.
                if self.table_version is None or error.is_expired:
                    raise
                _logger.debug("%s is assumed to be missing (%s)", url, error)
                continue
            return footers.parsed(content, url).metadata or {}
        return {}

    def with_columns(self, columns: Iterable[Column]) -> ParquetDataset:
        """Return the dataset with columns that describe several datasets read as one.

        Parameters
        ----------
        columns : iterable of Column
            Columns with the same names, which may have nulls or other lengths in other datasets.
        """
        schema = self.schema.with_columns(columns)
        return self if schema == self.schema else replace(self, schema=schema)

    def with_text_partitions(self, columns: Collection[str]) -> ParquetDataset:
        """Return the dataset with some partition columns read as strings.

        By default, values that look like integers are read as integers: ``month=01`` is 1.
        """
        arrow = self.arrow_schema
        chosen = [name for name in columns if not pa.types.is_string(arrow.field(name).type)]
        if not chosen:
            return self
        arrow_fields = [f.with_type(pa.string()) if f.name in chosen else f for f in arrow]
        retyped = (
            replace(self.schema[name], encoding="str", spark_type="string") for name in chosen
        )

        def with_texts(group: footers.RowGroup) -> footers.RowGroup:
            # A table's partition values need not be in directory names.
            stated = {n: v if v is None else str(v) for n, v in group.partition.items()}
            texts = {**stated, **partition_texts(group.path)}
            found = {name: texts[name] for name in chosen}
            return replace(group, partition={**group.partition, **found})

        return replace(
            self,
            schema=self.schema.with_columns(retyped),
            arrow_schema=pa.schema(arrow_fields, arrow.metadata),
            row_groups=tuple(map(with_texts, self.row_groups)),
        )

    @property
    def first_rows(self) -> npt.NDArray[np.int64]:
        """Number of each row group's first row in the whole dataset."""
        return super().first_rows if self.starts is None else self.starts

    def with_shards(self, numbers: Sequence[int]) -> ParquetDataset:
        """Return a dataset with only the row groups `numbers`, in that order, for a filter."""
        chosen = [int(number) for number in numbers]
        if chosen == list(range(len(self.row_groups))):
            return self
        fingerprint, former = fingerprints_of(self, lambda of: f"{of} {chosen}")
        return replace(
            self,
            row_groups=tuple(self.row_groups[number] for number in chosen),
            fingerprint=fingerprint,
            former=former,
            starts=self.first_rows[chosen],
        )

    def may_match(self, filters: Filters, unbounded: Collection[str] = ()) -> Mask:
        """Return for each row group whether a row may match, by its partition and statistics.

        If the conditions use only partition columns, all rows of a row group match, or none.
        """
        values = self.partition_values
        found = self._may_match(filters, [{}] * len(self.row_groups))
        bounded = sorted(filters.fields.difference(values, unbounded))
        if bounded:
            left = self.with_shards(np.flatnonzero(found).tolist())
            found[found] = left._may_match(filters, value_bounds(left, bounded))
        return found

    def _may_match(self, filters: Filters, bounds: Sequence[Bounds]) -> Mask:
        values = self.partition_values

        def may_hold(term: Term) -> Mask:
            name = term.column
            if name in values:
                return term.holds(values[name])
            return np.array([name not in b or term.may_hold(*b[name]) for b in bounds], np.bool_)

        return filters.holds(may_hold)

    @property
    def partition_values(self) -> dict[str, pa.Array]:
        """The values of the partition columns in each row group."""
        return {
            name: pa.array(
                [group.partition[name] for group in self.row_groups], self.schema[name].arrow_type
            )
            for name in self.partition_columns
        }

    def shard(self, number: int) -> ParquetShard:
        """Open row group `number`, without reading it yet.

        Row groups stay open while they are referenced; the most recent ones stay open even longer.
        """
        return self._open_shards.get(number, self._open_row_group)

    @contextmanager
    def open_file(self, group: footers.RowGroup) -> Iterator[pq.ParquetFile]:
        """Yield a new reader for a row group's file; see `OpenFiles.reader`."""
        with self._open_files.reader(group.path) as file:
            yield file

    def stored_batches(
        self, samples: range, columns: Sequence[str], rows: int, *, use_threads: bool = False
    ) -> Iterator[dict[str, pa.Array]]:
        """Yield consecutive samples as they are stored, as plain Arrow arrays.

        Row groups are decoded batch by batch, so memory does not grow with their size. Values are
        exact: unlike in other ways of reading, nanoseconds are not truncated.

        Raises
        ------
        CorruptDatasetError
            If a file is damaged, or does not have the recorded number of rows.
        UnsupportedTableError
            If pyarrow has no support for the values, or the files differ in a column.
        """
        self.schema.check_readable(columns, self.url)
        bounds = self._bounds
        first, end = bisect_right(bounds, samples.start) - 1, bisect_left(bounds, samples.stop)
        groups = self.row_groups[first:end]
        at = bounds[first]
        for _, of_file in groupby(groups, key=lambda group: group.file_url):
            decoded = self._batches_of_file([*of_file], columns, rows, use_threads=use_threads)
            for number, batch in decoded:
                start, stop = max(samples.start - at, 0), min(samples.stop - at, number)
                at += number
                if stop - start == number:
                    yield batch
                elif start < stop:
                    yield {name: batch[name].slice(start, stop - start) for name in columns}

    def _batches_of_file(
        self,
        groups: Sequence[footers.RowGroup],
        columns: Sequence[str],
        rows: int,
        *,
        use_threads: bool,
    ) -> Iterator[tuple[int, dict[str, pa.Array]]]:
        """Yield the live (not deleted) rows of row groups in one file, each after its number."""
        stored, partition, url = self.stored_columns, groups[0].partition, groups[0].file_url
        from_file = [name for name in columns if name not in partition]
        types = {name: plain_type(self.arrow_schema.field(name).type) for name in columns}
        options: dict[str, Any] = {"batch_size": rows, "use_threads": use_threads}
        with read_errors(url, columns), self.open_file(groups[0]) as file:
            for number, arrays in stored.live_rows(file, groups, from_file, **options):
                if not number:
                    continue
                for name in partition.keys() & columns:
                    arrays[name] = stored.repeated(name, partition[name], number)
                yield (
                    number,
                    {
                        name: arrays[name]
                        if plain_type(arrays[name].type) == type_
                        else cast(arrays[name], type_)
                        for name, type_ in types.items()
                    },
                )

    def read_file_metadata(self, files: Sequence[footers.ParquetFileInfo]) -> list[pq.FileMetaData]:
        """Read the complete footers of the given files in parallel.

        Raises
        ------
        DatasetNotFoundError, CorruptDatasetError, CredentialsError, StorageError
            If a footer cannot be read.
        """
        options = self.cache or CacheOptions()
        read = partial(footers.read_chunks, self.location, options=options, pins=self.pins)
        return map_files(lambda file: read(file)[0], files)

    def _open_row_group(self, number: int) -> ParquetShard:
        group = self.row_groups[number]
        open_file = partial(self._open_files.reader, group.path)
        return ParquetShard(group, self.schema, self.stored_columns, open_file)


_EPOCH = datetime(1970, 1, 1)
_NUMBERS = {"BOOLEAN": "?", "INT32": "<i4", "INT64": "<i8", "FLOAT": "<f4", "DOUBLE": "<f8"}
_PER_SECOND = {"milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}
#: Minimum and maximum values of some columns, without nulls and NaN; times in UTC.
Bounds: TypeAlias = dict[str, tuple[Any, Any]]


def value_bounds(dataset: ParquetDataset, columns: Sequence[str]) -> list[Bounds]:
    """Return the minimum and maximum values of columns for each row group of a dataset.

    Columns without statistics in a footer are omitted. The footers of all files that have row
    groups are read again.

    Raises
    ------
    DatasetNotFoundError, CorruptDatasetError, CredentialsError, StorageError
        If a footer cannot be read.
    """
    used = {group.path for group in dataset.row_groups}
    files = [file for file in dataset.files if file.name in used]
    read = map_files(lambda file: _of_file(dataset, file, columns), files)
    found = {file.name: bounds for file, bounds in zip(files, read, strict=True)}
    return [
        _joined(found[group.path]) if group.ordinal is None else found[group.path][group.ordinal]
        for group in dataset.row_groups
    ]


def _of_file(
    dataset: ParquetDataset, file: footers.ParquetFileInfo, columns: Sequence[str]
) -> list[Bounds]:
    """Return the bounds of the columns in each row group of a file."""
    location = dataset.location
    options = dataset.cache or CacheOptions()
    metadata, _, groups, _ = footers.read_chunks(location, file, options, dataset.pins)
    leaves = [metadata.schema.column(i) for i in range(metadata.num_columns)]
    # A struct's field may have the same path as a column whose name contains a dot.
    places = {leaf.path: i for i, leaf in enumerate(leaves) if leaf.name == leaf.path}
    names = dataset.stored_columns.names_of_same_type(
        metadata.schema.to_arrow_schema(), columns, location.file_url(file.name)
    )
    readers = {
        name: (places[path], read)
        for name, path in names.items()
        if path in places and (read := _reader(leaves[places[path]]))
    }
    return [
        {name: found for name, (i, read) in readers.items() if (found := _bounds(group[i], read))}
        for group in groups
    ]


def _joined(bounds: Sequence[Bounds]) -> Bounds:
    """Return the bounds over several row groups."""
    if not bounds:
        return {}
    known = set.intersection(*(set(each) for each in bounds))
    return {
        name: (min(each[name][0] for each in bounds), max(each[name][1] for each in bounds))
        for name in known
    }


def _bounds(chunk: footers.Struct, read: Callable[[bytes], Any]) -> tuple[Any, Any] | None:
    statistics = chunk[footers.METADATA].get(footers.STATISTICS, {})
    try:
        low, high = read(statistics[footers.MIN]), read(statistics[footers.MAX])
    except (ArithmeticError, KeyError, ValueError):  # missing or damaged statistics
        return None
    return (low, high) if low <= high else None  # None for NaN


def _reader(leaf: pq.ColumnSchema) -> Callable[[bytes], Any] | None:
    """Return a function from stored bytes to a value, or None for types that are not compared."""
    stored, logical = leaf.physical_type, json.loads(leaf.logical_type.to_json())
    if stored in _NUMBERS and logical["Type"] in ("None", "Int"):
        dtype = np.dtype(_NUMBERS[stored])
        if not logical.get("isSigned", True):
            dtype = np.dtype(f"<u{dtype.itemsize}")
        return lambda raw: _number(raw, dtype)
    order: Literal["little", "big"] = "little" if stored in _NUMBERS else "big"
    match logical["Type"]:
        case "String":
            return lambda raw: raw.decode()
        case "Date":
            return lambda raw: _EPOCH.date() + timedelta(_number(raw, np.dtype("<i4")))
        case "Timestamp" if logical["timeUnit"] in _PER_SECOND:
            # Nanoseconds are truncated to microseconds, as in the column's values.
            unit = _PER_SECOND[logical["timeUnit"]]
            return lambda raw: (
                _EPOCH + timedelta(microseconds=_number(raw, np.dtype("<i8")) * 10**6 // unit)
            )
        case "Decimal":
            power = -logical["scale"]
            return lambda raw: Decimal(f"{int.from_bytes(raw, order, signed=True)}E{power}")
    return None


def _number(raw: bytes, dtype: np.dtype[Any]) -> Any:
    (value,) = np.frombuffer(raw, dtype).tolist()
    return value
