"""Parquet datasets whose row groups are read as shards."""

from mdstorm_backend.parquet.opening import open_parquet
from mdstorm_backend.parquet.parquet_dataset import ParquetDataset
from mdstorm_backend.parquet.row_groups import RowGroup

__all__ = ["ParquetDataset", "RowGroup", "open_parquet"]
