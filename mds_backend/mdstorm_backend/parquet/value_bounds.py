"""Minimum and maximum values of columns in each row group, from the Parquet statistics."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Literal, TypeAlias

import numpy as np
import pyarrow.parquet as pq

from mdstorm_backend.base.pools import map_files
from mdstorm_backend.cache.cache_options import CacheOptions
from mdstorm_backend.parquet.footers import MAX, MIN, STATISTICS, read_chunks
from mdstorm_backend.parquet.parquet_dataset import ParquetDataset
from mdstorm_backend.parquet.row_groups import ParquetFileInfo
from mdstorm_backend.parquet.thrift import Struct

_EPOCH = datetime(1970, 1, 1)
_NUMBERS = {"BOOLEAN": "?", "INT32": "<i4", "INT64": "<i8", "FLOAT": "<f4", "DOUBLE": "<f8"}
_PER_SECOND = {"milliseconds": 10**3, "microseconds": 10**6, "nanoseconds": 10**9}
#: Minimum and maximum values of some columns, without nulls and NaN; times in UTC.
Bounds: TypeAlias = dict[str, tuple[Any, Any]]


def value_bounds(dataset: ParquetDataset, columns: Sequence[str]) -> list[Bounds]:
    """Return minimum and maximum values of some columns for each row group of a dataset.

    Columns whose statistics a footer lacks are missing. The footers of all files that have row
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


#: TensorFlow's AutoGraph is to leave this alone, as `open_parquet`.
value_bounds.autograph_info__ = None  # type: ignore[attr-defined]


def _of_file(
    dataset: ParquetDataset, file: ParquetFileInfo, columns: Sequence[str]
) -> list[Bounds]:
    location = dataset.location
    metadata, groups = read_chunks(location, file, dataset.cache or CacheOptions())
    leaves = [metadata.schema.column(i) for i in range(metadata.num_columns)]
    # The field of a struct may have the path of a column whose name has a dot.
    places = {leaf.path: i for i, leaf in enumerate(leaves) if leaf.name == leaf.path}
    names = dataset.stored_columns.names_of_same_type(
        metadata.schema.to_arrow_schema(), columns, location.file_url(file.name)
    )
    chosen = {name: places[path] for name, path in names.items() if path in places}
    readers = {name: (place, _reader(leaves[place])) for name, place in chosen.items()}
    return [
        {name: found for name, (i, read) in readers.items() if (found := _bounds(group[i], read))}
        for group in groups
    ]


def _joined(bounds: Sequence[Bounds]) -> Bounds:
    """Return the bounds of several row groups together."""
    if not bounds:
        return {}
    known = set.intersection(*(set(each) for each in bounds))
    return {
        name: (min(each[name][0] for each in bounds), max(each[name][1] for each in bounds))
        for name in known
    }


def _bounds(chunk: Struct, read: Callable[[bytes], Any]) -> tuple[Any, Any] | None:
    statistics = chunk.get(STATISTICS, {})
    try:
        low, high = read(statistics[MIN]), read(statistics[MAX])
    except (ArithmeticError, KeyError, ValueError):  # there are none, or they are damaged
        return None
    return (low, high) if low <= high else None  # NaN


def _reader(leaf: pq.ColumnSchema) -> Callable[[bytes], Any]:
    """Return what makes a value of the bytes of one."""
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
            # Nanoseconds are cut, as those of the values are.
            unit = _PER_SECOND[logical["timeUnit"]]
            return lambda raw: (
                _EPOCH + timedelta(microseconds=_number(raw, np.dtype("<i8")) * 10**6 // unit)
            )
        case "Decimal":
            power = -logical["scale"]
            return lambda raw: Decimal(f"{int.from_bytes(raw, order, signed=True)}E{power}")
    return _unread


def _number(raw: bytes, dtype: np.dtype[Any]) -> Any:
    (value,) = np.frombuffer(raw, dtype).tolist()
    return value


def _unread(raw: bytes) -> Any:
    raise ValueError("values of this type are not compared")
