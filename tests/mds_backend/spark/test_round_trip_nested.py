"""Structs, maps and deeper nesting, which are stored as JSON text."""

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.mds_backend.spark.columns import UTC, WALL_CLOCK, MakeFrame, assert_column, utc

from mdstorm_backend.spark.materialization import materialize

INF, NAN = float("inf"), float("nan")


pytestmark = pytest.mark.usefixtures("session_far_from_utc")


#: Name of a field, SQL literal, Arrow type, value that comes out.
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
    (
        "timestamp_ntz",
        "TIMESTAMP_NTZ'2020-01-01 00:00:00'",
        WALL_CLOCK,
        dt.datetime(2020, 1, 1),
    ),
    ("interval", "INTERVAL '-1' DAY", pa.duration("us"), dt.timedelta(-1)),
    ("array", "array('x', NULL)", pa.list_(pa.string()), ["x", None]),
]


def test_structs_of_every_type(frame: MakeFrame, target: Path) -> None:
    pairs = ", ".join(f"'{name}', {literal}" for name, literal, _, _ in FIELDS)
    nulls = ", ".join(f"'{name}', NULL" for name, *_ in FIELDS)
    df = frame(f"named_struct({pairs})", f"named_struct({nulls})", "NULL")
    type_ = pa.struct([(name, type_) for name, _, type_, _ in FIELDS])
    full = {name: value for name, _, _, value in FIELDS}
    empty = {name: None for name, *_ in FIELDS}
    assert_column(materialize(df, str(target)), [full, empty, None], type_)


@pytest.mark.parametrize(("literal", "type_", "value"), [field[1:] for field in FIELDS[6:10]])
def test_maps_of_every_kind_of_value(
    frame: MakeFrame, target: Path, literal: str, type_: pa.DataType, value: Any
) -> None:
    df = frame(f"map(1, {literal}, 2, NULL)", "map()", "NULL")
    expected = [[(1, value), (2, None)], [], None]
    assert_column(materialize(df, str(target)), expected, pa.map_(pa.int32(), type_))


def test_map_keys_that_json_has_no_type_for(frame: MakeFrame, target: Path) -> None:
    df = frame("map(DATE'2020-01-01', map(X'00', 1))")
    type_ = pa.map_(pa.date32(), pa.map_(pa.binary(), pa.int32()))
    expected = [[(dt.date(2020, 1, 1), [(b"\x00", 1)])]]
    assert_column(materialize(df, str(target)), expected, type_)


@pytest.mark.parametrize(
    ("literals", "type_", "expected"),
    [
        (
            ["array(array(1), array())", "array(NULL, array(2, NULL))", "array()", "NULL"],
            pa.list_(pa.list_(pa.int32())),
            [[[1], []], [None, [2, None]], [], None],
        ),
        (
            ["array(named_struct('a', 1), NULL)", "array()"],
            pa.list_(pa.struct([("a", pa.int32())])),
            [[{"a": 1}, None], []],
        ),
        (["array(X'00FF', NULL)", "NULL"], pa.list_(pa.binary()), [[b"\x00\xff", None], None]),
        (
            ["array(CAST('1.5' AS DECIMAL(4,2)), NULL)"],
            pa.list_(pa.decimal128(4, 2)),
            [[Decimal("1.50"), None]],
        ),
    ],
    ids=["uneven array<array>", "array<struct>", "array<binary>", "array<decimal>"],
)
def test_arrays_of_what_has_no_array_encoding(
    frame: MakeFrame, target: Path, literals: list[str], type_: pa.DataType, expected: list[Any]
) -> None:
    assert_column(materialize(frame(*literals), str(target)), expected, type_)


def test_the_stored_text_is_json_for_anybody(frame: MakeFrame, target: Path) -> None:
    df = frame(
        "named_struct('when', TIMESTAMP'2020-01-01 00:00:00', 'pairs', map('k', 1),"
        " 'price', CAST('1.50' AS DECIMAL(4,2)), 'bytes', X'00FF')"
    )
    dataset = materialize(df, str(target))
    content = (target / dataset.index.shards[0].raw_data.basename).read_bytes()
    text = content[content.rindex(b'{"when"') :]
    assert json.loads(text) == {
        "when": "2020-01-01 05:00:00.000000Z",
        "price": "1.50",
        "bytes": "AP8=",
        "pairs": [["k", 1]],
    }
