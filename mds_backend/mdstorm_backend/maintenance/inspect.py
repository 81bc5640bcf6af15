"""Describe a dataset: its columns, shards and sizes, and its first rows."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from mdstorm_backend.format import Column, Values, as_arrow
from mdstorm_backend.format.values.arrow_types import simple_name
from mdstorm_backend.format.values.python_objects import python_objects
from mdstorm_backend.kinds import open_stored


@dataclass(frozen=True)
class Spread:
    """Minimum, median, maximum and sum of some numbers; all are 0 if there are no numbers."""

    min: int = 0
    median: float = 0
    max: int = 0
    total: int = 0

    @classmethod
    def of(cls, numbers: Iterable[int]) -> Spread:
        """Return the spread of `numbers`."""
        found = list(numbers)
        return cls(min(found), statistics.median(found), max(found), sum(found)) if found else cls()


@dataclass(frozen=True)
class ColumnSummary:
    """One column of a dataset.

    Attributes
    ----------
    name : str
        Name of the column.
    encodings : dict of str to int
        MDS encodings in which the column is stored, each with the number of shards.
    spark_type : str or None
        Spark type, if the dataset was written from a DataFrame.
    nullable : bool
        Whether the DataFrame declared the column nullable.
    null_count, element_null_count : int
        Rows, and elements inside arrays, that are null.
    """

    name: str
    encodings: dict[str, int]
    spark_type: str | None
    nullable: bool
    null_count: int
    element_null_count: int


@dataclass(frozen=True)
class Inspection:
    """The description of a dataset that `inspect` returns.

    Attributes
    ----------
    url : str
        URL of the dataset.
    rows : int
        Samples in all shards.
    shards : int
        Number of shards, which are row groups of Parquet files, or files of tables.
    columns : tuple of ColumnSummary
        The columns in order.
    shard_rows, shard_bytes : Spread
        Samples per shard, and bytes per uncompressed shard.
    stored_bytes : Spread
        Bytes per file as stored, compressed or not.
    compressions, hashes, size_limits : dict of str to int
        Compressions, hashes and size limits of MDS shards, each with the number of shards that have
        it; ``"none"`` for none.
    fingerprint : str
        Identity of the content, as recorded in checkpoints.
    logical_schema : bool
        Whether the dataset carries Spark types.
    version : int or None
        Version of a table, or the id of its snapshot; None for other data.
    """

    url: str
    rows: int
    shards: int
    columns: tuple[ColumnSummary, ...]
    shard_rows: Spread
    shard_bytes: Spread
    stored_bytes: Spread
    compressions: dict[str, int]
    hashes: dict[str, int]
    size_limits: dict[str, int]
    fingerprint: str
    logical_schema: bool
    version: int | None = None

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {**asdict(self), "columns": [vars(column) for column in self.columns]}


def inspect(source: Any, *, storage_options: dict[str, Any] | None = None) -> Inspection:
    """Describe a dataset of any kind.

    Of MDS, only the index is read, and a shard's header if the index has lost the schema; of
    Parquet, only footers.

    Parameters
    ----------
    source : SampleDataset, str, or anything else that `open_stored` opens
        The dataset.
    storage_options : dict, optional
        Options of the fsspec file system.

    Raises
    ------
    DatasetNotFoundError
        If there is no dataset.
    CorruptDatasetError
        If the dataset cannot be parsed.
    """
    dataset = open_stored(source, storage_options=storage_options)
    stored = dataset.storage()
    return Inspection(
        url=dataset.url,
        rows=len(dataset),
        shards=len(dataset.shard_sizes),
        columns=tuple(_summary(column, stored.encodings) for column in dataset.schema),
        shard_rows=Spread.of(dataset.shard_sizes),
        shard_bytes=Spread.of(dataset.shard_bytes),
        stored_bytes=Spread.of(stored.files),
        compressions=dict(stored.compressions),
        hashes=dict(stored.hashes),
        size_limits=dict(stored.size_limits),
        fingerprint=dataset.fingerprint,
        logical_schema=any(column.spark_type is not None for column in dataset.schema),
        version=dataset.stored.table_version,
    )


def _summary(column: Column, encodings: Mapping[str, dict[str, int]]) -> ColumnSummary:
    return ColumnSummary(
        name=column.name,
        encodings=encodings.get(column.name) or {column.encoding: 0},
        spark_type=None if column.spark_type is None else simple_name(column.spark_type),
        nullable=column.nullable,
        null_count=column.null_count,
        element_null_count=column.element_null_count,
    )


def head(
    source: Any,
    n: int = 5,
    *,
    columns: Sequence[str] | None = None,
    storage_options: dict[str, Any] | None = None,
) -> dict[str, list[Any]]:
    """Read the first `n` rows of a dataset of any kind, or all rows if it has fewer.

    Parameters
    ----------
    source : SampleDataset, str, or anything else that `open_stored` opens
        The dataset.
    n : int
        Number of rows.
    columns : sequence of str, optional
        Columns to read, in that order; all by default.
    storage_options : dict, optional
        Options of the fsspec file system.

    Returns
    -------
    dict of str to list
        The values of each column: Python objects, None for null. Dates and times that Python cannot
        hold are text. Images and pickles are their stored bytes: nothing is unpickled.

    Raises
    ------
    DatasetNotFoundError
        If there is no dataset.
    CorruptDatasetError
        If it cannot be parsed.
    ArgumentTypeError
        If the dataset does not have one of the columns.
    UnsupportedEncodingError
        If this version cannot decode one of them.
    """
    dataset = open_stored(source, storage_options=storage_options)
    names = dataset.select(columns)
    values: dict[str, list[Any]] = {name: [] for name in names}
    for number, samples in enumerate(dataset.shard_sizes):
        count = min(samples, n)
        if count <= 0:
            break
        batch = dataset.shard(number).read(np.arange(count), names, exact_nulls=True)
        for name in names:
            with python_objects(name, batch[name], dataset.bounds[number]):
                values[name] += _as_objects(batch[name])
        n -= count
    return values


def _as_objects(values: Values) -> list[Any]:
    if isinstance(values, np.ndarray) and (values.ndim > 1 or values.dtype == object):
        return list(values)
    array = as_arrow(values)
    try:
        return list(array.to_pylist())
    except (OverflowError, ValueError):
        return [_as_object(value) for value in array]


def _as_object(value: pa.Scalar) -> Any:
    """Return a value as a Python object, and dates and times that Python cannot hold as text."""
    try:
        return value.as_py()
    except UnicodeDecodeError:
        raise
    except (OverflowError, ValueError):
        if isinstance(value, pa.StructScalar):
            return {name: _as_object(item) for name, item in value.items()}
        if pa.types.is_nested(value.type):
            return [_as_object(item) for item in value]
        unit: Any = "D" if pa.types.is_date32(value.type) else value.type.unit
        return str(np.datetime64(value.value, unit))
