"""Arrays and vectors: their values, and the form in which shards hold them."""

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.mds_backend.spark.columns import UTC, WALL_CLOCK, MakeFrame, assert_column, case, utc

from mdstorm_backend.spark.materialization import materialize

NAN = float("nan")
MIDNIGHT = "TIMESTAMP'2020-01-01 00:00:00'"
NONE_INT = "CAST(NULL AS ARRAY<INT>)"


pytestmark = pytest.mark.usefixtures("session_far_from_utc")


ARRAYS = [
    case("one length", pa.int32(), ["array(1, 2)", "array(3, 4)"], [[1, 2], [3, 4]]),
    case("length 1", pa.int32(), ["array(1)", "array(2)"], [[1], [2]]),
    case("ragged", pa.int32(), ["array(1, 2)", "array()", "array(3)"], [[1, 2], [], [3]]),
    case("all empty", pa.int32(), ["CAST(array() AS ARRAY<INT>)"] * 2, [[], []]),
    case("a null row", pa.int32(), ["array(1, 2)", "NULL", "array(3, 4)"], [[1, 2], None, [3, 4]]),
    case("a null row first", pa.int32(), ["NULL", "array(1, 2)"], [None, [1, 2]]),
    case("all rows null", pa.int32(), [NONE_INT] * 3, [None] * 3),
    case("a null element", pa.int32(), ["array(1, NULL)", "array(3, 4)"], [[1, None], [3, 4]]),
    case(
        "all elements null", pa.int32(), ["CAST(array(NULL) AS ARRAY<INT>)"] * 2, [[None], [None]]
    ),
    case(
        "ragged with both kinds of nulls",
        pa.int64(),
        ["array(1L, 2L)", "array()", "NULL", "array(5L, NULL, 7L)"],
        [[1, 2], [], None, [5, None, 7]],
    ),
    case(
        "boolean",
        pa.bool_(),
        ["array(true, false)", "array(NULL, true)"],
        [[True, False], [None, True]],
    ),
    case("byte", pa.int8(), ["array(-128Y, 127Y)"], [[-128, 127]]),
    case("short", pa.int16(), ["array(-32768S, 32767S)"], [[-32768, 32767]]),
    case("long", pa.int64(), ["array(-9223372036854775808L)"], [[-(2**63)]]),
    case("float", pa.float32(), ["array(float('nan'), float('inf'))"], [[NAN, float("inf")]]),
    case(
        "date",
        pa.date32(),
        ["array(DATE'2020-01-01', NULL)", "array()"],
        [[dt.date(2020, 1, 1), None], []],
    ),
    case("timestamp", UTC, [f"array({MIDNIGHT})", "array(NULL)"], [[utc(2020, 1, 1, 5)], [None]]),
    case("timestamp, ragged", UTC, [f"array({MIDNIGHT})", "NULL"], [[utc(2020, 1, 1, 5)], None]),
    case(
        "timestamp_ntz",
        WALL_CLOCK,
        ["array(TIMESTAMP_NTZ'2020-01-01 00:00:00')"],
        [[dt.datetime(2020, 1, 1)]],
    ),
    case(
        "interval", pa.duration("us"), ["array(INTERVAL '1' DAY, NULL)"], [[dt.timedelta(1), None]]
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
@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([[1, 2], [3, 4]], [[1.0, 2.0], [3.0, 4.0]]),
        ([{0: 1.0, 2: 2.0}, {}], [[1.0, 0.0, 2.0], [0.0, 0.0, 0.0]]),
        (
            [{1: 5.0}, None, [6, 7, 8], [], {2: 9.0}],
            [[0.0, 5.0, 0.0], None, [6.0, 7.0, 8.0], [], [0.0, 0.0, 9.0]],
        ),
    ],
    ids=["dense", "sparse", "mixed with nulls"],
)
def test_vectors(
    spark: Any, target: Path, library: str, rows: list[Any], expected: list[Any]
) -> None:
    dataset = materialize(vectors(spark, library, rows), str(target))
    assert_column(dataset, expected, pa.list_(pa.float32()))
