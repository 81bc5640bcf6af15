"""Parquet datasets whose row groups are shards of the reading core."""

from mdstorm_backend.parquet.opening import open_parquet
from mdstorm_backend.parquet.parquet_dataset import ParquetDataset
from mdstorm_backend.parquet.row_groups import RowGroup

__all__ = ["ParquetDataset", "RowGroup", "open_parquet"]
