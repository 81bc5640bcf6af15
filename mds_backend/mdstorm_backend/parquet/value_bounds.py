"""Minimum and maximum values of columns in each row group, from the Parquet statistics."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import Any, TypeAlias

import pyarrow.parquet as pq

from mdstorm_backend.base.shard_threads import map_files
from mdstorm_backend.cache.cache_options import CacheOptions
from mdstorm_backend.parquet.footers import read_metadata
from mdstorm_backend.parquet.parquet_dataset import ParquetDataset
from mdstorm_backend.parquet.row_groups import ParquetFileInfo

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


def _of_file(
    dataset: ParquetDataset, file: ParquetFileInfo, columns: Sequence[str]
) -> list[Bounds]:
    location = dataset.location
    metadata = read_metadata(location, file, dataset.cache or CacheOptions())
    leaves = (metadata.schema.column(i) for i in range(metadata.num_columns))
    # The field of a struct may have the path of a column whose name has a dot.
    places = {leaf.path: i for i, leaf in enumerate(leaves) if leaf.name == leaf.path}
    names = dataset.stored_columns.names_of_same_type(
        metadata.schema.to_arrow_schema(), columns, location.file_url(file.name)
    )
    chosen = {name: places[path] for name, path in names.items() if path in places}
    groups = (metadata.row_group(number) for number in range(metadata.num_row_groups))
    return [_of_group(group, chosen) for group in groups]


def _joined(bounds: Sequence[Bounds]) -> Bounds:
    """Return the bounds of several row groups together."""
    if not bounds:
        return {}
    known = set.intersection(*(set(each) for each in bounds))
    return {
        name: (min(each[name][0] for each in bounds), max(each[name][1] for each in bounds))
        for name in known
    }


def _of_group(group: pq.RowGroupMetaData, places: dict[str, int]) -> Bounds:
    statistics = {name: group.column(place).statistics for name, place in places.items()}
    return {
        name: (_in_utc(found.min), _in_utc(found.max))
        for name, found in statistics.items()
        if found is not None and found.has_min_max and found.min == found.min  # no NaN
    }


def _in_utc(value: Any) -> Any:
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        return value.astimezone(datetime.timezone.utc).replace(tzinfo=None)
    return value
