"""Describe a dataset, and read its first rows: columns, shards and sizes."""

from __future__ import annotations

import base64
import math
import statistics
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import date, datetime, time, timedelta
from typing import Any

import numpy as np

from mdstorm_backend.datasets.dataset import Dataset, open_dataset
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.format.values.arrow_types import simple_name
from mdstorm_backend.format.values.batch import as_arrow

_NON_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


@dataclass(frozen=True)
class Spread:
    """Minimum, median, maximum and sum of some numbers; all 0 if there are none."""

    min: int = 0
    median: float = 0
    max: int = 0
    total: int = 0

    @classmethod
    def of(cls, numbers: Iterable[int]) -> Spread:
        """Describe `numbers`."""
        found = list(numbers)
        if not found:
            return cls()
        return cls(min(found), statistics.median(found), max(found), sum(found))


@dataclass(frozen=True)
class ColumnSummary:
    """One column of a dataset.

    Attributes
    ----------
    name : str
        Its name.
    encodings : dict of str to int
        MDS encodings in which it is stored, with their numbers of shards.
    spark_type : str or None
        Spark type, if the dataset was written from a DataFrame.
    nullable : bool
        Whether the DataFrame declared it nullable.
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
    """What `inspect` found.

    Attributes
    ----------
    url : str
        URL of the dataset.
    rows : int
        Samples in all shards.
    shards : int
        Their number.
    columns : tuple of ColumnSummary
        The columns in order.
    shard_rows, shard_bytes : Spread
        Samples of a shard, and bytes of an uncompressed one.
    stored_bytes : Spread
        Bytes of a shard file as it is stored, compressed or not.
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

    Only its index is read, and a shard's header if the index lost the schema.

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


@dataclass(frozen=True)
class Stored:
    """A value that is shown as its stored bytes, such as an image or a pickle.

    Attributes
    ----------
    encoding : str
        MDS encoding, such as ``"jpeg"``.
    data : bytes
        The stored bytes.
    """

    encoding: str
    data: bytes

    def __str__(self) -> str:
        return f"<{self.encoding}, {len(self.data)} bytes>"


@dataclass(frozen=True)
class Head:
    """The first rows of a dataset.

    Attributes
    ----------
    url : str
        URL of the dataset.
    columns : tuple of str
        Names of the columns.
    rows : tuple of dict
        One dict per row, from column name to value: Python objects, None for null, and `Stored` for
        images and pickles.
    """

    url: str
    columns: tuple[str, ...]
    rows: tuple[dict[str, Any], ...]

    def to_json(self) -> list[dict[str, Any]]:
        """Return one JSON object per row; images and pickles are the stored bytes as base64."""
        return [
            {
                name: _plain(value.data if isinstance(value, Stored) else value)
                for name, value in row.items()
            }
            for row in self.rows
        ]


def head(
    url: str,
    n: int = 5,
    *,
    columns: Sequence[str] | None = None,
    storage_options: dict[str, Any] | None = None,
) -> Head:
    """Read the first `n` rows of the dataset at `url`.

    Parameters
    ----------
    url : str
        Directory of the dataset: a URL or a local path.
    n : int
        Number of rows to read; fewer if the dataset has fewer.
    columns : sequence of str, optional
        Columns to read, in that order; all by default.
    storage_options : dict, optional
        Options of the fsspec file system.

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
    if n < 0:
        raise InvalidArgumentError(f"cannot read {n} rows: pass a number of at least 0")
    dataset = open_dataset(url, storage_options=storage_options)
    names = dataset.select(columns)
    rows: list[dict[str, Any]] = []
    for number, samples in enumerate(dataset.shard_sizes):
        count = min(samples, n - len(rows))
        if count:
            rows += _rows(dataset, number, count, names)
        if len(rows) == n:
            break
    return Head(dataset.url, names, tuple(rows))


def _rows(
    dataset: Dataset, number: int, count: int, names: tuple[str, ...]
) -> list[dict[str, Any]]:
    batch = dataset.shard(number).read(np.arange(count), names, exact_nulls=True)
    columns = {}
    for name, values in batch.items():
        column: list[Any] = (
            list(values)
            if isinstance(values, np.ndarray) and (values.ndim > 1 or values.dtype == object)
            else as_arrow(values).to_pylist()
        )
        encoding = dataset.schema[name].parsed_encoding
        if not encoding.is_shown:
            column = [value if value is None else Stored(encoding.text, value) for value in column]
        columns[name] = column
    return [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]


def _plain(value: Any) -> Any:
    """Return `value` in a form that `json.dumps` accepts.

    Bytes become base64; dates and times ISO 8601; decimals text; numbers that JSON cannot represent
    the strings ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``; arrays lists; maps lists of pairs.
    """
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else _NON_FINITE[str(value)]
    if isinstance(value, (np.generic, np.ndarray)):
        return _plain(value.tolist())
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, (date, datetime, time)):
        return value.isoformat()
    if isinstance(value, timedelta):
        return value / timedelta(seconds=1)
    return str(value)
