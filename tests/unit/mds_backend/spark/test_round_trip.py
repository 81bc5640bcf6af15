"""Datasets of every Spark type, written from real DataFrames, read back unchanged."""

import datetime as dt
from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import StructField, StructType
from tests.conftest import of_values

from mdstorm_backend.datasets.dataset import Dataset
from mdstorm_backend.spark.materialization import materialize

MakeFrame = Callable[..., Any]

UTC = pa.timestamp("us", tz="UTC")
WALL_CLOCK = pa.timestamp("us")


def utc(*args: int) -> dt.datetime:
    return dt.datetime(*args, tzinfo=dt.timezone.utc)


def decimal(text: str, precision: int, scale: int) -> str:
    return f"CAST('{text}' AS DECIMAL({precision},{scale}))"


def assert_column(
    dataset: Dataset, expected: list[Any], type_: pa.DataType, name: str = "v"
) -> None:
    """Check the type and values of a column; NaN counts as equal to NaN."""
    column = dataset.to_table().column(name)
    assert column.type == type_
    assert repr(column.to_pylist()) == repr(pa.array(expected, type_).to_pylist())


INF, NAN = float("inf"), float("nan")


pytestmark = [of_values, pytest.mark.usefixtures("session_far_from_utc")]


#: Name, SQL literal, Arrow type and expected value of each field of a struct.
FIELDS = [
    ("boolean", "true", pa.bool_(), True),
    ("long", "9223372036854775807L", pa.int64(), 2**63 - 1),
    ("float", "float('1.1')", pa.float32(), 1.100000023841858),
    ("double", "1.1D", pa.float64(), 1.1),
    ("infinity", "double('-inf')", pa.float64(), -INF),
    ("nan", "double('nan')", pa.float64(), NAN),
    ("decimal", "CAST('1.50' AS DECIMAL(38,2))", pa.decimal128(38, 2), Decimal("1.50")),
    ("string", "'quote \" back \\\\ bell \\u0007 ü'", pa.string(), 'quote " back \\ bell \a ü'),
    ("binary", "X'00FF'", pa.binary(), b"\x00\xff"),
    ("date", "DATE'9999-12-31'", pa.date32(), dt.date.max),
    ("timestamp", "TIMESTAMP'2020-01-01 00:00:00.000001'", UTC, utc(2020, 1, 1, 5, 0, 0, 1)),
    ("timestamp_ntz", "TIMESTAMP_NTZ'2020-01-01 00:00:00'", WALL_CLOCK, dt.datetime(2020, 1, 1)),
    ("interval", "INTERVAL '-1' DAY", pa.duration("us"), dt.timedelta(-1)),
    ("array", "array('x', NULL)", pa.list_(pa.string()), ["x", None]),
    ("rows", "array(named_struct('a', 1), NULL)", pa.list_(pa.struct([("a", pa.int32())])),
     [{"a": 1}, None]),
    ("uneven", "array(array(1), array(), NULL)", pa.list_(pa.list_(pa.int32())), [[1], [], None]),
    ("map", "map(DATE'9999-12-31', X'00', DATE'2020-01-01', NULL)",
     pa.map_(pa.date32(), pa.binary()), [(dt.date.max, b"\x00"), (dt.date(2020, 1, 1), None)]),
]  # fmt: skip


def struct_of(values: list[str]) -> str:
    pairs = (f"'{name}', {value}" for (name, *_), value in zip(FIELDS, values, strict=True))
    return f"named_struct({', '.join(pairs)})"


TYPES: dict[str, tuple[pa.DataType, list[str], list[Any]]] = {
    "boolean": (pa.bool_(), ["true", "NULL", "false"], [True, None, False]),
    "byte": (pa.int8(), ["-128Y", "127Y", "NULL"], [-128, 127, None]),
    "short": (pa.int16(), ["-32768S", "32767S", "NULL"], [-32768, 32767, None]),
    "int": (pa.int32(), ["-2147483648", "2147483647", "NULL"], [-(2**31), 2**31 - 1, None]),
    "long": (pa.int64(), ["-9223372036854775808L", "9223372036854775807L", "NULL"],
         [-(2**63), 2**63 - 1, None]),
    "decimal": (pa.decimal128(10, 2),
         [decimal("1.50", 10, 2), decimal("-99999999.99", 10, 2), "NULL"],
         [Decimal("1.50"), Decimal("-99999999.99"), None]),
    "decimal of 38 digits": (pa.decimal128(38, 0),
         [decimal("9" * 38, 38, 0), decimal("-" + "9" * 38, 38, 0)],
         [Decimal("9" * 38), Decimal("-" + "9" * 38)]),
    "decimal of 38 places": (pa.decimal128(38, 38),
         [decimal("1E-38", 38, 38), decimal("0", 38, 38)], [Decimal("1E-38"), Decimal("0E-38")]),
    "string": (pa.string(), ["'a\\u0000'", "'\\u0000'", "'häß 🎉'", "''", "NULL"],
         ["a\0", "\0", "häß 🎉", "", None]),
    "varchar": (pa.string(), ["CAST('ab' AS VARCHAR(3))"], ["ab"]),
    "binary": (pa.binary(), ["X'00FF00'", "X''", "NULL"], [b"\x00\xff\x00", b"", None]),
    "date": (pa.date32(), ["DATE'1970-01-01'", "DATE'0001-01-01'", "DATE'9999-12-31'", "NULL"],
         [dt.date(1970, 1, 1), dt.date.min, dt.date.max, None]),
    "timestamp": (UTC,
         ["TIMESTAMP'2020-01-01 00:00:00'", "TIMESTAMP'2020-07-01 00:00:00.000001'",
          "TIMESTAMP'1900-01-01 00:00:00'", "TIMESTAMP'9999-12-30 00:00:00.123456'", "NULL"],
         [utc(2020, 1, 1, 5), utc(2020, 7, 1, 4, 0, 0, 1), utc(1900, 1, 1, 5),
          utc(9999, 12, 30, 5, 0, 0, 123456), None]),
    "timestamp_ntz": (WALL_CLOCK,
         ["TIMESTAMP_NTZ'2020-01-01 00:00:00'", "TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'"],
         [dt.datetime(2020, 1, 1), dt.datetime.max]),
    "day-time interval": (pa.duration("us"),
         ["INTERVAL '1 02:03:04.567891' DAY TO SECOND", "INTERVAL '-1' DAY", "NULL"],
         [dt.timedelta(1, 7384, 567891), dt.timedelta(-1), None]),
    "array of both kinds of nulls": (pa.list_(pa.int64()),
         ["array(1L, 2L)", "array()", "NULL", "array(5L, NULL, 7L)"],
         [[1, 2], [], None, [5, None, 7]]),
    "array of strings": (pa.list_(pa.string()),
         ["array('a', 'quote \" back \\\\ line \\n')", "array()", "NULL",
          "array('', NULL, 'ü\\u0000')"],
         [["a", 'quote " back \\ line \n'], [], None, ["", None, "ü\0"]]),
    "struct": (pa.struct([(name, type_) for name, _, type_, _ in FIELDS]),
         [struct_of([literal for _, literal, *_ in FIELDS]), struct_of(["NULL"] * len(FIELDS))],
         [{name: value for name, *_, value in FIELDS}, {name: None for name, *_ in FIELDS}]),
}  # fmt: skip


@pytest.fixture(scope="module")
def dataset(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dataset]:
    """A dataset of two partitions with a column for each type; short columns end with nulls."""
    columns = [literals for _, literals, _ in TYPES.values()]
    rows = [f"({', '.join(row)})" for row in zip_longest(*columns, fillvalue="NULL")]
    names = ", ".join(f"`{name}`" for name in TYPES)
    queries = (
        f"SELECT * FROM VALUES {', '.join(part)} AS rows({names})" for part in (rows[:2], rows[2:])
    )
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    target = tmp_path_factory.mktemp("types") / "dataset"
    yield materialize(spark.sql(" UNION ALL ".join(queries)), str(target))
    spark.conf.set("spark.sql.session.timeZone", zone)


@pytest.mark.parametrize("name", TYPES)
def test_values_of_each_type_read_back(dataset: Dataset, name: str) -> None:
    type_, _, values = TYPES[name]
    expected = values + [None] * (len(dataset) - len(values))
    assert_column(dataset, expected, type_, name)
    column = dataset.schema[name]
    assert column.null_count == expected.count(None)
    if column.is_array:
        assert column.element_null_count == sum(row.count(None) for row in values if row)


def test_decimals_with_negative_scale_read_back(spark: Any, set_conf: Any, target: Path) -> None:
    set_conf("spark.sql.legacy.allowNegativeScaleOfDecimal", "true")
    set_conf("spark.sql.legacy.exponentLiteralAsDecimal.enabled", "true")
    df = spark.sql("SELECT * FROM VALUES (12E3), (-99E3), (NULL) AS rows(v)")
    dataset = materialize(df, str(target))
    assert_column(dataset, [Decimal("1.2E+4"), Decimal("-9.9E+4"), None], pa.decimal128(2, -3))


def test_doubles_are_cast_to_dtype(frame: MakeFrame, target: Path) -> None:
    literals = ["1.1D", "1D", "1e300D", "double('-inf')", "double('nan')", "NULL"]
    expected = [1.1, 1.0, 1e300, -INF, NAN, None]
    dataset = materialize(frame(*literals), str(target), dtype="float64")
    assert_column(dataset, expected, pa.float64())


def test_columns_with_any_name_read_back(spark: Any, target: Path) -> None:
    names = ["a b", "a.b", "a.c", "é", "class", "_1", "`", "a,b", "x", "X", "%20", "c0"]
    df = spark.range(3).selectExpr(*["id"] * len(names)).toDF(*names)
    dataset = materialize(df, str(target))
    assert dataset.to_table().to_pydict() == {name: [0, 1, 2] for name in names}


def test_large_arrow_types_read_back(spark: Any, set_conf: Any, target: Path) -> None:
    set_conf("spark.sql.execution.arrow.useLargeVarTypes", "true")
    df = spark.sql(
        "SELECT 'a' AS text, X'00' AS bytes, array('b', NULL) AS list, array(1) AS numbers,"
        " named_struct('text', 'c', 'bytes', X'FF') AS struct"
    )
    struct = {"text": "c", "bytes": b"\xff"}
    assert materialize(df, str(target)).to_table().to_pylist() == [
        {"text": "a", "bytes": b"\x00", "list": ["b", None], "numbers": [1], "struct": struct}
    ]


def test_collated_strings_read_back(frame: MakeFrame, target: Path) -> None:
    pytest.importorskip("pyspark", "4.0", reason="Spark 3.5 has no collations")
    dataset = materialize(frame("'Ab' COLLATE UTF8_LCASE", "NULL"), str(target))
    assert_column(dataset, ["Ab", None], pa.string())


def test_dense_sparse_and_null_vectors_read_back(spark: Any, target: Path) -> None:
    libraries = [pytest.importorskip(f"pyspark.{name}.linalg") for name in ("ml", "mllib")]
    rows: list[Any] = [{1: 5.0}, None, [6, 7, 8], [], {2: 9.0}]  # those of a dict are sparse
    expected = [[0.0, 5.0, 0.0], None, [6.0, 7.0, 8.0], [], [0.0, 0.0, 9.0]]

    def vector(library: Any, row: Any) -> Any:
        if isinstance(row, dict):
            return library.Vectors.sparse(3, row)
        return row if row is None else library.Vectors.dense(row)

    fields = [StructField(one.__name__, one.VectorUDT()) for one in libraries]
    values = [tuple(vector(one, row) for one in libraries) for row in rows]
    dataset = materialize(spark.createDataFrame(values, StructType(fields)), str(target))
    for field in fields:
        assert_column(dataset, expected, pa.list_(pa.float32()), field.name)
