"""Convert Parquet files, tables and Petastorm datasets to MDS, and compare datasets."""

from __future__ import annotations

from mdstorm._conversion.conversion import convert, mds_plan, open_compared, stored_files

__all__ = ["convert", "mds_plan", "open_compared", "stored_files"]
