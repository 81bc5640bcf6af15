"""Convert Parquet to MDS without Spark, and compare the content of two datasets."""

from __future__ import annotations

from mdstorm_backend.convert.comparison import ComparedRows, Comparison, compare, compared_rows
from mdstorm_backend.convert.parquet_to_mds import chosen_fields, convert_parquet, plan_parquet
from mdstorm_backend.convert.staged_parquet import materialize_staged
from mdstorm_backend.write.file_columns import FileColumns

__all__ = [
    "ComparedRows",
    "Comparison",
    "FileColumns",
    "chosen_fields",
    "compare",
    "compared_rows",
    "convert_parquet",
    "materialize_staged",
    "plan_parquet",
]
