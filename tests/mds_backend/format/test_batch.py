from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.format.values.batch import (
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
