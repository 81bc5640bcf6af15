"""Structs, maps and deeper nesting, which are stored as JSON text."""

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from tests.conftest import of_values
from tests.mds_backend.spark.columns import UTC, WALL_CLOCK, MakeFrame, assert_column, utc

from mdstorm_backend.spark.materialization import materialize

INF, NAN = float("inf"), float("nan")


pytestmark = [of_values, pytest.mark.usefixtures("session_far_from_utc")]


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
    ("rows", "array(named_struct('a', 1), NULL)", pa.list_(pa.struct([("a", pa.int32())])),
     [{"a": 1}, None]),
    ("uneven", "array(array(1), array(), NULL)", pa.list_(pa.list_(pa.int32())), [[1], [], None]),
    ("map", "map(DATE'9999-12-31', X'00', DATE'2020-01-01', NULL)",
     pa.map_(pa.date32(), pa.binary()), [(dt.date.max, b"\x00"), (dt.date(2020, 1, 1), None)]),
]  # fmt: skip


def test_structs_of_every_type(frame: MakeFrame, target: Path) -> None:
    pairs = ", ".join(f"'{name}', {literal}" for name, literal, _, _ in FIELDS)
    nulls = ", ".join(f"'{name}', NULL" for name, *_ in FIELDS)
    df = frame(f"named_struct({pairs})", f"named_struct({nulls})", "NULL")
    type_ = pa.struct([(name, type_) for name, _, type_, _ in FIELDS])
    full = {name: value for name, _, _, value in FIELDS}
    empty = {name: None for name, *_ in FIELDS}
    assert_column(materialize(df, str(target)), [full, empty, None], type_)


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
