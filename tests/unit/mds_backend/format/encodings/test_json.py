"""`json_text` and its inverse `decode_json`."""

import json
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kit.small_datasets import array_of, map_of, struct_of

from mdstorm_backend.format.encodings.json_text import decode_json, decode_lists, json_text
from mdstorm_backend.format.values.arrow_types import SparkType, arrow_type

UTC = timezone.utc


@given(st.lists(st.none() | st.text()), st.lists(st.none() | st.floats()))
def test_strings_and_doubles_read_back_from_json(
    texts: list[str | None], numbers: list[float | None]
) -> None:
    for rows, type_ in ((texts, pa.string()), (numbers, pa.float64())):
        found = [json.loads(text) for text in json_text(pa.array(rows, type_)).to_pylist()]
        assert repr(found) == repr(rows)


@pytest.mark.parametrize(
    ("value", "spark_type", "text"),
    [
        (0.1, "float", "0.1"),
        (float("inf"), "float", "Infinity"),
        (7, "long", "7"),
        (True, "boolean", "true"),
        ('a\n"\\\x01', "string", r'"a\n\"\\\u0001"'),
        (b"\x00\xff", "binary", '"AP8="'),
        (Decimal("1.50"), "decimal(10,2)", '"1.50"'),
        (date(2020, 1, 31), "date", '"2020-01-31"'),
        (datetime(2020, 1, 31, 12, 0, 0, 5, UTC), "timestamp", '"2020-01-31 12:00:00.000005Z"'),
        (datetime(2020, 1, 31, 12, 0, 0, 5), "timestamp_ntz", '"2020-01-31 12:00:00.000005"'),
        (timedelta(seconds=1), "interval day to second", "1000000"),
        ([], array_of("long"), "[]"),
        ([None, [1]], array_of(array_of("long")), "[null,[1]]"),
        ([("k", 1), ("l", None)], map_of("string", "long"), '[["k",1],["l",null]]'),
        ({"a": 1, "b": None}, struct_of(a="long", b="string"), '{"a":1,"b":null}'),
    ],
)
def test_value_of_each_type_is_converted_to_json(
    value: Any, spark_type: SparkType, text: str
) -> None:
    assert json_text(pa.array([value, None], arrow_type(spark_type))).to_pylist() == [text, "null"]


def test_structs_without_fields_become_empty_json_objects_and_nulls_become_null() -> None:
    assert json_text(pa.array([{}, None], pa.struct([]))).to_pylist() == ["{}", "null"]
    assert json_text(pa.nulls(2)).to_pylist() == ["null", "null"]


@pytest.mark.parametrize(
    ("text", "spark_type"),
    [
        ('"text"', array_of("long")),
        ("7", struct_of(a="date")),
        ('{"b": 1}', struct_of(a="date")),
        ('{"a": 1}', struct_of(a="date")),
        ('{"a": "x"}', struct_of(a="decimal(5,2)")),
        ('{"a": "x"}', struct_of(a="binary")),
        ('{"a": "x"}', struct_of(a="timestamp")),
        ('{"a": "x"}', struct_of(a="long")),
        ("[[1]]", map_of("string", "long")),
        ("7", map_of("string", "date")),
        ("[", array_of("long")),
        ("[1],[2]", array_of("long")),
    ],
    ids=str,
)
def test_json_of_the_wrong_type_raises_value_error(text: str, spark_type: SparkType) -> None:
    with pytest.raises(ValueError, match=r"."):
        decode_json(pa.array([text]), arrow_type(spark_type))


@settings(deadline=None)
@given(st.lists(st.none() | st.lists(st.none() | st.text(max_size=4), max_size=3), max_size=6))
def test_lists_of_strings_are_parsed_as_json(rows: list[list[str | None] | None]) -> None:
    texts = pa.array([None if row is None else json.dumps(row) for row in rows], pa.string())
    found = decode_lists(texts, pa.list_(pa.string()))
    assert found.type == pa.list_(pa.string())
    assert found.to_pylist() == rows
