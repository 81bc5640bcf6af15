"""Arrays and vectors: their values, and the form in which shards hold them."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.conftest import of_values
from tests.mds_backend.spark.columns import MakeFrame, assert_column, case

from mdstorm_backend.spark.materialization import materialize

pytestmark = [of_values, pytest.mark.usefixtures("session_far_from_utc")]


ARRAYS = [
    case(
        "ragged with both kinds of nulls",
        pa.int64(),
        ["array(1L, 2L)", "array()", "NULL", "array(5L, NULL, 7L)"],
        [[1, 2], [], None, [5, None, 7]],
    ),
    case(
        "string",
        pa.string(),
        [
            "array('a', 'quote \" back \\\\ line \\n')",
            "array()",
            "NULL",
            "array('', NULL, 'ü\\u0000')",
        ],
        [["a", 'quote " back \\ line \n'], [], None, ["", None, "ü\0"]],
    ),
]


@pytest.mark.parametrize(("literals", "element", "expected"), ARRAYS)
def test_arrays(
    frame: MakeFrame, target: Path, literals: list[str], element: pa.DataType, expected: list[Any]
) -> None:
    dataset = materialize(frame(*literals), str(target))
    assert_column(dataset, expected, pa.list_(element))
    arrays = [row for row in expected if row is not None]
    assert dataset.schema["v"].null_count == len(expected) - len(arrays)
    if dataset.schema["v"].is_array:
        missing = sum(row.count(None) for row in arrays)
        assert dataset.schema["v"].element_null_count == missing


def vectors(spark: Any, library: str, rows: list[Any]) -> Any:
    """A frame of vectors: a list is dense, a dict from index to value sparse of size 3."""
    linalg = pytest.importorskip(f"pyspark.{library}.linalg")
    from pyspark.sql.types import StructField, StructType

    def make(row: Any) -> Any:
        if isinstance(row, dict):
            return linalg.Vectors.sparse(3, row)
        return row if row is None else linalg.Vectors.dense(row)

    schema = StructType([StructField("v", linalg.VectorUDT())])
    return spark.createDataFrame([(make(row),) for row in rows], schema)


@pytest.mark.parametrize("library", ["ml", "mllib"])
def test_dense_sparse_and_null_vectors(spark: Any, target: Path, library: str) -> None:
    rows = [{1: 5.0}, None, [6, 7, 8], [], {2: 9.0}]
    expected = [[0.0, 5.0, 0.0], None, [6.0, 7.0, 8.0], [], [0.0, 0.0, 9.0]]
    dataset = materialize(vectors(spark, library, rows), str(target))
    assert_column(dataset, expected, pa.list_(pa.float32()))
