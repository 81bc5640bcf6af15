"""Converting Parquet to MDS without Spark, and comparing what two datasets hold."""

from __future__ import annotations

from mdstorm_backend.convert.compared_rows import ComparedRows, MDSRows, ParquetRows
from mdstorm_backend.convert.comparison import Comparison, RowDifference, compare
from mdstorm_backend.convert.parquet_to_mds import chosen_fields, convert_parquet, plan_parquet
from mdstorm_backend.convert.row_batches import Recode
from mdstorm_backend.convert.staged_parquet import materialize_staged

__all__ = [
    "ComparedRows",
    "Comparison",
    "MDSRows",
    "ParquetRows",
    "Recode",
    "RowDifference",
    "chosen_fields",
    "compare",
    "convert_parquet",
    "materialize_staged",
    "plan_parquet",
]
