"""Joining columns, converting columns to Arrow arrays, and converting decimals to floats."""

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kit.strategies import decimals

from mdstorm_backend.errors import InvalidArgumentError, TransformError
from mdstorm_backend.format.encodings.registry import parse_encoding
from mdstorm_backend.format.values.arrow_types import decimals_to_floats
from mdstorm_backend.format.values.batch import Values, as_arrow, concat_stored, concat_values


@pytest.mark.parametrize(
    ("one", "other", "type_", "joined"),
    [
        (pa.nulls(1), np.array([1]), np.float64, "[nan, 1.0]"),
        (pa.nulls(1), np.array([2**60 + 1]), np.float64, "[nan, 1.152921504606847e+18]"),
        (pa.nulls(1), np.array([0.5], np.float32), np.float32, "[nan, 0.5]"),
        (np.array([1], np.int8), np.array([300]), np.int64, "[1, 300]"),
        (np.array([[1]]), np.array([[0.5]]), np.float64, "[[1.0], [0.5]]"),
        (pa.nulls(1), np.array([0], "M8[us]").astype("M8[ns]"), np.datetime64, "[None, 0]"),
        (pa.nulls(1), np.array([True]), pa.bool_(), "[None, True]"),
        (pa.nulls(1), pa.array(["a"]), pa.string(), "[None, 'a']"),
        (pa.nulls(1), np.array([[1, 2]]), pa.list_(pa.int64()), "[None, [1, 2]]"),
        (pa.array([[None]]), pa.array([["a"]]), pa.list_(pa.string()), "[[None], ['a']]"),
        (np.array([[1]], np.int32), pa.array([[0.5]]), pa.list_(pa.float64()), "[[1.0], [0.5]]"),
        (np.array([[1]]), np.array([[1, 2]]), pa.list_(pa.int64()), "[[1], [1, 2]]"),
    ],
)
def test_column_parts_of_two_types_are_joined_in_a_common_type(
    one: Values, other: Values, type_: Any, joined: str
) -> None:
    found = concat_values([one, other])
    if isinstance(found, np.ndarray):
        assert (found.dtype.type, repr(found.tolist())) == (type_, joined)
    else:
        assert (found.type, repr(found.to_pylist())) == (type_, joined)


@pytest.mark.parametrize("name", ["item", "element", "array"])
def test_stored_lists_with_other_names_for_elements_are_joined_as_lists(name: str) -> None:
    other = pa.array([[], [2, 3]], pa.list_(pa.field(name, pa.int64())))
    found = concat_stored([pa.array([[1]]), other])
    assert isinstance(found, pa.ListArray)
    assert found.to_pylist() == [[1], [], [2, 3]]


def test_joined_decimals_keep_all_digits() -> None:
    rows = [Decimal("1.25"), Decimal("123456.5")]
    assert concat_values([pa.array([row]) for row in rows]).to_pylist() == rows


def test_multidimensional_arrays_of_different_shapes_become_objects() -> None:
    found = concat_values([np.ones((1, 2, 2)), np.ones((1, 3, 2))])
    assert [cell.shape for cell in found] == [(2, 2), (3, 2)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (pa.array(["a"]), np.array([1])),
        (pa.array(["a"]), pa.array([b"a"])),
        (np.array([1]), np.array([[1, 2]])),
        (np.array([1]), np.array(["1970-01-01"], "M8[ns]")),
        (pa.array([Decimal("1e30")]), pa.array([Decimal("1e-30")])),
    ],
)
def test_column_parts_without_common_type_raise_error_naming_both_types(
    one: Values, other: Values
) -> None:
    with pytest.raises(TransformError, match=r"column 'x' is .* in some shards and .* in other"):
        concat_values([one, other], "x")


def test_matrix_columns_become_arrow_lists() -> None:
    assert as_arrow(np.arange(6).reshape(3, 2)).to_pylist() == [[0, 1], [2, 3], [4, 5]]
    assert as_arrow(np.zeros((2, 2, 2))).to_pylist() == [[0.0] * 4] * 2
    assert as_arrow(np.zeros((0, 2))).to_pylist() == []
    assert as_arrow(np.array([1, 2])).to_pylist() == [1, 2]


def test_values_that_do_not_fit_in_arrow_raise_error_with_column_name() -> None:
    untouched = pa.py_buffer(np.zeros(1 << 30, np.uint8))  # uses no memory until it is accessed
    bounds = pa.py_buffer(np.array([0, 1 << 30], np.int32))
    part = pa.Array.from_buffers(pa.binary(), 1, [None, bounds, untouched])
    with pytest.raises(InvalidArgumentError, match=r"column 'a' takes .* use a smaller batch_size"):
        concat_values([part, part], "a")
    with pytest.raises(InvalidArgumentError, match="3 rows of 1073741824 values"):
        as_arrow(np.broadcast_to(np.zeros(1 << 30, np.uint8), (3, 1 << 30)))


DIGITS = st.sampled_from([(1, 1), (10, 2), (15, 15), (20, 2), (38, 0), (38, 18), (38, 38)])


@given(DIGITS.flatmap(lambda d: st.tuples(st.just(d), st.lists(decimals(*d), max_size=5))))
def test_decimals_are_rounded_to_the_nearest_float(
    case: tuple[tuple[int, int], list[Decimal]],
) -> None:
    digits, values = case
    stored = pa.array([*values, None], pa.decimal128(*digits))
    exact = [float(value) for value in values]
    assert decimals_to_floats(stored, pa.float64()).to_pylist() == [*exact, None]
    single = [float(np.float32(number)) for number in exact]
    assert decimals_to_floats(stored, pa.float32()).to_pylist() == [*single, None]


def test_arrays_of_decimals_keep_their_nulls_when_converted_to_floats() -> None:
    rows = [[Decimal("0.10"), None], None, [], [Decimal("-3.00")]]
    lists = pa.array(rows, pa.list_(pa.decimal128(5, 2)))
    found = decimals_to_floats(lists[1:], pa.list_(pa.float64()))
    assert found.to_pylist() == [None, [], [-3.0]]
    assert decimals_to_floats(lists, pa.list_(pa.float64()))[0].as_py() == [0.1, None]


def test_decimals_with_negative_scale_are_converted_or_raise_overflow_error() -> None:
    large = pa.array([Decimal("9.9E+4")], pa.decimal128(2, -3))
    assert decimals_to_floats(large, pa.float32()).to_pylist() == [99_000.0]
    digits = pa.py_buffer(np.array([12, 0], np.int64))
    too_large = pa.Array.from_buffers(pa.decimal128(2, -38), 1, [None, digits])
    assert decimals_to_floats(too_large, pa.float64()).to_pylist() == [12e38]
    with pytest.raises(OverflowError, match="the value is out of the range of float"):
        decimals_to_floats(too_large, pa.float32())


def test_float_encoding_rounds_decimals_to_the_nearest() -> None:
    values = pa.array([Decimal("0.07"), None, Decimal("-12345678.91")], pa.decimal128(10, 2))
    for cast in (False, True):
        column = parse_encoding("float64").encode_column("x", values, cast=cast)
        assert column.fixed is not None
        assert column.fixed[[0, 2]].tolist() == [0.07, -12345678.91]
        assert np.isnan(column.fixed[1])
