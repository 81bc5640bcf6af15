"""Decimals become the nearest floating-point numbers, or stay what they are."""

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.mds_backend.small_datasets import array_of
from tests.mds_backend.strategies import decimals

from mdstorm_backend.format import decimals_to_floats, plan_types
from mdstorm_backend.format.encodings.registry import parse_encoding

DIGITS = st.sampled_from([(1, 1), (10, 2), (15, 15), (20, 2), (38, 0), (38, 18), (38, 38)])


@given(DIGITS.flatmap(lambda d: st.tuples(st.just(d), st.lists(decimals(*d), max_size=5))))
def test_they_are_rounded_to_the_nearest(case: tuple[tuple[int, int], list[Decimal]]) -> None:
    digits, values = case
    stored = pa.array([*values, None], pa.decimal128(*digits))
    exact = [float(value) for value in values]
    assert decimals_to_floats(stored, pa.float64()).to_pylist() == [*exact, None]
    single = [float(np.float32(number)) for number in exact]
    assert decimals_to_floats(stored, pa.float32()).to_pylist() == [*single, None]


def test_arrays_of_them_keep_their_nulls() -> None:
    rows = [[Decimal("0.10"), None], None, [], [Decimal("-3.00")]]
    lists = pa.array(rows, pa.list_(pa.decimal128(5, 2)))
    found = decimals_to_floats(lists[1:], pa.list_(pa.float64()))
    assert found.to_pylist() == [None, [], [-3.0]]
    assert decimals_to_floats(lists, pa.list_(pa.float64()))[0].as_py() == [0.1, None]


def test_a_negative_scale_is_a_power_of_ten_that_may_be_too_large() -> None:
    large = pa.array([Decimal("9.9E+4")], pa.decimal128(2, -3))
    assert decimals_to_floats(large, pa.float32()).to_pylist() == [99_000.0]
    digits = pa.py_buffer(np.array([12, 0], np.int64))
    too_large = pa.Array.from_buffers(pa.decimal128(2, -38), 1, [None, digits])
    assert decimals_to_floats(too_large, pa.float64()).to_pylist() == [12e38]
    with pytest.raises(OverflowError, match="it is out of the range of float"):
        decimals_to_floats(too_large, pa.float32())


@pytest.mark.parametrize(
    ("type_", "encoding", "stored"),
    [
        ("decimal(10,2)", "float64", "double"),
        (array_of("decimal(10,2)"), "ndarray:float64", array_of("double")),
        # What is inside of structs and nested arrays is left alone, as `dtype` does it.
        (array_of(array_of("decimal(3,1)")), None, array_of(array_of("decimal(3,1)"))),
        ("double", "float32", "double"),
        ("long", "int64", "long"),
        ("string", "str", "string"),
    ],
)
def test_a_plan_has_floats_where_it_is_told_so(type_: Any, encoding: Any, stored: Any) -> None:
    fields = [{"name": "x", "type": type_}]
    (column,) = plan_types(fields, "float32", "float64")
    kept = plan_types(fields, "float32")
    assert column.encoding == (encoding or kept["x"].encoding)
    assert column.spark_type == stored
    assert plan_types(fields, "float32", "decimal") == kept


def test_an_encoding_of_floats_takes_them_by_their_nearest() -> None:
    values = pa.array([Decimal("0.07"), None, Decimal("-12345678.91")], pa.decimal128(10, 2))
    for cast in (False, True):
        column = parse_encoding("float64").encode_column("x", values, cast=cast)
        assert column.fixed is not None
        assert column.fixed[[0, 2]].tolist() == [0.07, -12345678.91]
        assert np.isnan(column.fixed[1])
