"""Converting Parquet to MDS without Spark, and comparing what two datasets hold."""

from mdstorm_backend.convert.comparison import ColumnDifference, Comparison, compare
from mdstorm_backend.convert.differing_rows import RowDifference
from mdstorm_backend.convert.parquet_to_mds import convert_parquet

__all__ = ["ColumnDifference", "Comparison", "RowDifference", "compare", "convert_parquet"]
