from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from mdstorm_backend.errors import InvalidArgumentError, TransformError
from mdstorm_backend.format.values.batch import (
    Values,
    as_arrow,
    concat_values,
    num_rows,
    slice_batch,
    take_values,
)


def test_the_rows_of_a_batch_are_those_of_its_columns() -> None:
    assert num_rows({"a": np.zeros((3, 2)), "b": pa.array(["x", "y", "z"])}) == 3
    assert num_rows({}) == 0


def test_a_slice_is_a_view() -> None:
    numbers, words = np.arange(5), pa.array(["a", "b", "c", "d", "e"])
    part = slice_batch({"n": numbers, "w": words}, 1, 3)
    assert part["w"].to_pylist() == ["b", "c"]
    part["n"][:] = 0
    assert numbers.tolist() == [0, 0, 0, 3, 4]


def test_rows_are_copied_in_the_order_asked_for() -> None:
    rows = np.array([2, 0, 2])
    matrix = np.arange(6).reshape(3, 2)
    taken = take_values(matrix, rows)
    assert taken.tolist() == [[4, 5], [0, 1], [4, 5]]
    assert not np.shares_memory(taken, matrix)
    assert take_values(pa.array(["a", None, "c"]), rows).to_pylist() == ["c", "a", "c"]


def test_pieces_are_joined_as_what_they_are() -> None:
    joined = concat_values([np.array([1]), np.array([2, 3])])
    assert isinstance(joined, np.ndarray)
    assert joined.tolist() == [1, 2, 3]
    assert concat_values([pa.array(["a"]), pa.array([None, "b"])]).to_pylist() == ["a", None, "b"]


def test_numpy_pieces_beside_arrow_pieces_become_arrow() -> None:
    joined = concat_values([np.array([[1, 2]]), pa.array([[3], None], pa.list_(pa.int64()))])
    assert joined.to_pylist() == [[1, 2], [3], None]


@pytest.mark.parametrize(
    ("one", "other", "type_", "joined"),
    [
        (pa.nulls(1), np.array([1]), np.float64, "[nan, 1.0]"),
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
def test_pieces_of_two_types_have_one_for_both(
    one: Values, other: Values, type_: Any, joined: str
) -> None:
    found = concat_values([one, other])
    if isinstance(found, np.ndarray):
        assert (found.dtype.type, repr(found.tolist())) == (type_, joined)
    else:
        assert (found.type, repr(found.to_pylist())) == (type_, joined)


def test_decimals_keep_all_their_digits() -> None:
    decimals = [Decimal("1.25"), Decimal("123456.5")]
    assert concat_values([pa.array([one]) for one in decimals]).to_pylist() == decimals


def test_arrays_of_several_dimensions_and_shapes_become_objects() -> None:
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
def test_no_common_type_is_an_error_that_names_both(one: Values, other: Values) -> None:
    with pytest.raises(TransformError, match=r"column 'x' is .* in some shards and .* in other"):
        concat_values([one, other], "x")


def test_matrices_become_lists() -> None:
    assert as_arrow(np.arange(6).reshape(3, 2)).to_pylist() == [[0, 1], [2, 3], [4, 5]]
    assert as_arrow(np.zeros((2, 2, 2))).to_pylist() == [[0.0] * 4] * 2
    assert as_arrow(np.zeros((0, 2))).to_pylist() == []
    assert as_arrow(np.array([1, 2])).to_pylist() == [1, 2]


def test_what_no_arrow_array_can_hold_is_an_error_that_names_the_column() -> None:
    untouched = pa.py_buffer(np.zeros(1 << 30, np.uint8))  # takes no memory
    bounds = pa.py_buffer(np.array([0, 1 << 30], np.int32))
    part = pa.Array.from_buffers(pa.binary(), 1, [None, bounds, untouched])
    with pytest.raises(InvalidArgumentError, match=r"column 'a' takes .* use a smaller batch_size"):
        concat_values([part, part], "a")
    with pytest.raises(InvalidArgumentError, match="3 rows of 1073741824 values"):
        as_arrow(np.broadcast_to(np.zeros(1 << 30, np.uint8), (3, 1 << 30)))
