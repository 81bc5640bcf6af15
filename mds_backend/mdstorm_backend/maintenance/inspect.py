"""Describe a dataset: its columns, shards and sizes, and its first rows."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from mdstorm_backend.datasets import Dataset, open_dataset
from mdstorm_backend.format import Values, as_arrow
from mdstorm_backend.format.values.arrow_types import simple_name
from mdstorm_backend.format.values.python_objects import python_objects


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
        Number of shards.
    columns : tuple of ColumnSummary
        The columns in order.
    shard_rows, shard_bytes : Spread
        Samples per shard, and bytes per uncompressed shard.
    stored_bytes : Spread
        Bytes per shard file as stored, compressed or not.
    compressions, hashes, size_limits : dict of str to int
        Compressions, hashes and size limits of the shards, each with the number of shards that have
        it; ``"none"`` for none.
    fingerprint : str
        Identity of the content, as recorded in checkpoints.
    logical_schema : bool
        Whether the dataset carries Spark types.
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

    def to_json(self) -> dict[str, Any]:
        """Return a JSON object."""
        return {**asdict(self), "columns": [vars(column) for column in self.columns]}


def inspect(url: str, *, storage_options: dict[str, Any] | None = None) -> Inspection:
    """Describe the dataset at `url`.

    Only the index is read, and a shard's header if the index has lost the schema.

    Parameters
    ----------
    url : str
        Directory of the dataset: a URL or a local path.
    storage_options : dict, optional
        Options of the fsspec file system.

    Raises
    ------
    DatasetNotFoundError
        If there is no dataset.
    CorruptDatasetError
        If the dataset cannot be parsed.
    """
    dataset = open_dataset(url, storage_options=storage_options)
    shards = dataset.index.shards
    return Inspection(
        url=dataset.url,
        rows=len(dataset),
        shards=len(shards),
        columns=_columns(dataset),
        shard_rows=Spread.of(dataset.shard_sizes),
        shard_bytes=Spread.of(shard.raw_data.bytes for shard in shards),
        stored_bytes=Spread.of(shard.stored.bytes for shard in shards),
        compressions=_counts(shard.compression for shard in shards),
        hashes=_counts(", ".join(shard.hashes) for shard in shards),
        size_limits=_counts(str(shard.size_limit or "") for shard in shards),
        fingerprint=dataset.fingerprint,
        logical_schema=any(column.spark_type is not None for column in dataset.schema),
    )


def _counts(values: Iterable[str | None]) -> dict[str, int]:
    return dict(Counter(value or "none" for value in values).most_common())


def _columns(dataset: Dataset) -> tuple[ColumnSummary, ...]:
    encodings: dict[str, Counter[str]] = {name: Counter() for name in dataset.schema.names}
    layouts = Counter((s.column_names, s.column_encodings) for s in dataset.index.shards)
    for (names, texts), count in layouts.items():
        for name, text in zip(names, texts, strict=True):
            if name in encodings:
                encodings[name][text] += count
    return tuple(
        ColumnSummary(
            name=column.name,
            encodings=dict(encodings[column.name].most_common()) or {column.encoding: 0},
            spark_type=None if column.spark_type is None else simple_name(column.spark_type),
            nullable=column.nullable,
            null_count=column.null_count,
            element_null_count=column.element_null_count,
        )
        for column in dataset.schema
    )


def head(
    url: str,
    n: int = 5,
    *,
    columns: Sequence[str] | None = None,
    storage_options: dict[str, Any] | None = None,
) -> dict[str, list[Any]]:
    """Read the first `n` rows of the dataset at `url`, or all rows if it has fewer.

    Parameters
    ----------
    url : str
        Directory of the dataset: a URL or a local path.
    n : int
        Number of rows.
    columns : sequence of str, optional
        Columns to read, in that order; all by default.
    storage_options : dict, optional
        Options of the fsspec file system.

    Returns
    -------
    dict of str to list
        The values of each column: Python objects, None for null. Images and pickles are their
        stored bytes: nothing is unpickled.

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
    dataset = open_dataset(url, storage_options=storage_options)
    names = dataset.select(columns)
    found: dict[str, list[Any]] = {name: [] for name in names}
    for number, samples in enumerate(dataset.shard_sizes):
        count = min(samples, n)
        if count <= 0:
            break
        batch = dataset.shard(number).read(np.arange(count), names, exact_nulls=True)
        for name in names:
            with python_objects(name, batch[name], dataset.bounds[number]):
                found[name] += _as_objects(batch[name])
        n -= count
    return found


def _as_objects(values: Values) -> list[Any]:
    if isinstance(values, np.ndarray) and (values.ndim > 1 or values.dtype == object):
        return list(values)
    return list(as_arrow(values).to_pylist())
