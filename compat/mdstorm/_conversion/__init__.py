"""Convert Parquet files, tables and Petastorm datasets to MDS, and compare datasets."""

from __future__ import annotations

from mdstorm._conversion.compared_rows import open_compared
from mdstorm._conversion.conversion import convert, stored_files
from mdstorm._conversion.encoded_fields import mds_plan

__all__ = ["convert", "mds_plan", "open_compared", "stored_files"]
