"""Parquet datasets whose row groups are read as shards."""

from __future__ import annotations

from mdstorm_backend.parquet.footers import RowGroup
from mdstorm_backend.parquet.opening import (
    check_one_storage,
    has_same_files,
    is_hidden,
    open_listed,
    open_parquet,
    open_snapshot,
)
from mdstorm_backend.parquet.parquet_dataset import Bounds, ParquetDataset, value_bounds

__all__ = [
    "Bounds",
    "ParquetDataset",
    "RowGroup",
    "check_one_storage",
    "has_same_files",
    "is_hidden",
    "open_listed",
    "open_parquet",
    "open_snapshot",
    "value_bounds",
]
