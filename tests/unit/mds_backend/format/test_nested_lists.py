"""Shapes and rows of nested lists, checked against results computed from Python lists."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mdstorm_backend.format.values import nested_lists
from mdstorm_backend.format.values.nested_lists import depth_of, list_type


def nested(depth: int, *, nulls: bool) -> st.SearchStrategy[Any]:
    inner = (
        st.integers(0, 9) if depth == 0 else st.lists(nested(depth - 1, nulls=nulls), max_size=3)
    )
    return st.none() | inner if nulls else inner


@st.composite
def rectangular(draw: st.DrawFn, depth: int) -> Any:
    shape = draw(st.lists(st.integers(0, 3), min_size=depth, max_size=depth))
    return np.arange(np.prod(shape), dtype=np.int64).reshape(shape).tolist()


@st.composite
def lists(draw: st.DrawFn) -> tuple[list[Any], pa.Array]:
    """Nested lists of equal depth, often rectangular, sliced from a longer array."""
    depth = draw(st.integers(1, 3))
    row = nested(depth, nulls=draw(st.booleans())) | rectangular(depth)
    return with_array(draw(st.lists(row, max_size=6)), depth)


def with_array(rows: list[Any], depth: int) -> tuple[list[Any], pa.Array]:
    """Return rows, and the slice of an array that holds them."""
    before = np.zeros([1] * depth, np.int64).tolist()
    array = pa.array([before, *rows, None], list_type(pa.int64(), depth)).slice(1, len(rows))
    return rows, array


#: Nulls at every depth, which few of the drawn lists have.
NULLS = with_array([[[1, None], None, []], None, [[2]]], 2)


def shape_of(row: Any, depth: int) -> tuple[int, ...] | None:
    """Return the shape of a row, or None if the row is not rectangular."""
    if row is None:
        return (0,) * depth
    if depth == 1:
        return (len(row),)
    if any(inner is None for inner in row):
        return None
    shapes = {shape_of(inner, depth - 1) for inner in row} or {(0,) * (depth - 1)}
    shape = shapes.pop()
    return None if shapes or shape is None else (len(row), *shape)


@given(lists())
@example(NULLS)
def test_nulls_are_counted_at_every_depth(given_: tuple[list[Any], pa.Array]) -> None:
    rows, array = given_

    def nulls(row: Any) -> int:
        inner = row if isinstance(row, list) else []
        return sum(1 if item is None else nulls(item) for item in inner)

    assert nested_lists.null_counts_of(array).tolist() == [nulls(row) for row in rows]
    assert (
        nested_lists.null_lists_in(array)
        == sum(map(nulls, rows)) - nested_lists.elements_of(array).null_count
    )


@given(lists())
@example(NULLS)
def test_rectangular_rows_become_arrays_and_other_rows_become_lists(
    given_: tuple[list[Any], pa.Array],
) -> None:
    rows, array = given_
    elements = np.asarray(nested_lists.elements_of(array).fill_null(-1))

    def listed(row: Any) -> Any:
        if isinstance(row, list):
            return [listed(item) for item in row]
        return row.tolist() if isinstance(row, np.ndarray) else row

    def without_null_numbers(row: Any, depth: int) -> Any:
        if depth == 0:
            return -1 if row is None else row
        return None if row is None else [without_null_numbers(item, depth - 1) for item in row]

    wanted = [without_null_numbers(row, depth_of(array.type)) for row in rows]
    for uneven in (True, None):
        found = nested_lists.rows_of(array, elements, nested_lists.split_array, uneven=uneven)
        assert [listed(row) for row in found] == wanted
    for row, shape in zip(found, (shape_of(r, depth_of(array.type)) for r in rows), strict=True):
        assert row is None or isinstance(row, list) == (shape is None)


@pytest.mark.parametrize("shape", [(0, 2, 3), (2, 2, 3), (3, 1, 1, 2), (2, 0), (2, 3)])
def test_array_becomes_nested_lists(shape: tuple[int, ...]) -> None:
    values = np.arange(np.prod(shape)).reshape(shape)
    found = nested_lists.lists_of_array(values)
    assert depth_of(found.type) == len(shape) - 1
    assert found.to_pylist() == values.tolist()


def test_arrays_of_different_shapes_become_nested_lists() -> None:
    type_ = list_type(pa.float32(), 2)
    arrays = [np.ones((1, 2)), None, np.zeros((2, 1), np.int8), np.ones((0, 0))]
    found = nested_lists.lists_of_arrays(arrays, type_)
    assert found.type == type_
    assert found.to_pylist() == [[[1, 1]], None, [[0], [0]], []]
    assert nested_lists.lists_of_arrays([], type_).type == type_
    assert nested_lists.lists_of_arrays([None], type_).to_pylist() == [None]
    with pytest.raises(ValueError, match="an array of 1 dimensions among arrays of 2"):
        nested_lists.lists_of_arrays([np.ones(2)], type_)
