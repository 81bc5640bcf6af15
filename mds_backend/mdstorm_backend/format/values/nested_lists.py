"""Arrow lists of any depth: their elements, their lengths and their shapes.

The elements of nested lists are the innermost values, in row order. A row is rectangular, and can
be an array, if at each level all its lists have the same length and none is null. Other rows are
uneven.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend.base import arrow_compute as pc

_Lengths = npt.NDArray[np.int64]
#: Maximum number of empty lists among rows that are read together.
MOST_EMPTY_LISTS = 1 << 26


def depth_of(type_: pa.DataType) -> int:
    """Return the number of list levels of a type: 0 for a scalar."""
    depth = 0
    while pa.types.is_list(type_):
        type_, depth = type_.value_type, depth + 1
    return depth


def element_type(type_: pa.DataType) -> pa.DataType:
    """Return the type of the innermost values."""
    while pa.types.is_list(type_):
        type_ = type_.value_type
    return type_


def list_type(element: pa.DataType, depth: int) -> pa.DataType:
    """Return the type of lists of `depth` levels around `element`."""
    for _ in range(depth):
        element = pa.list_(element)
    return element


def elements_of(lists: pa.Array) -> pa.Array:
    """Return the innermost values of all rows, without values stored inside null lists."""
    while pa.types.is_list(lists.type):
        lists = lists.flatten()
    return lists


def children_of(lists: pa.Array) -> pa.Array:
    """Return the items of lists, or the key-value pairs of maps, one level down."""
    children = lists.values
    if pa.types.is_map(lists.type):
        children = pa.StructArray.from_arrays([lists.keys, lists.items], ["key", "value"])
    first, last = lists.offsets[0].as_py(), lists.offsets[-1].as_py()
    return children.slice(first, last - first)


def with_elements(lists: pa.Array, elements: pa.Array, *, keep_nulls: bool = True) -> pa.Array:
    """Return lists of the same lengths with different elements, of any type.

    Parameters
    ----------
    lists : pyarrow.ListArray
        The lists, of any depth.
    elements : pyarrow.Array
        The new elements, as many as `elements_of` returns.
    keep_nulls : bool
        Whether null lists stay null; otherwise they become empty.
    """
    if not pa.types.is_list(lists.type):
        return elements
    inner = with_elements(lists.flatten(), elements, keep_nulls=keep_nulls)
    mask = lists.is_null() if keep_nulls and lists.null_count else None
    return _lists(lengths_of(lists), inner, mask)


def with_nan_elements(lists: pa.Array) -> pa.Array:
    """Return lists of floating-point numbers with NaN for null elements."""
    elements = elements_of(lists)
    if not elements.null_count:
        return lists
    return with_elements(lists, pc.fill_null(elements, pa.scalar(np.nan, elements.type)))


def lengths_of(lists: pa.Array) -> _Lengths:
    """Return the lengths of the outermost lists, as int64; 0 for null."""
    return np.asarray(pc.fill_null(pc.list_value_length(lists), 0)).astype(np.int64)


def levels_of(lists: pa.Array) -> list[_Lengths]:
    """Return the lengths of all lists, per level, from the outermost inward."""
    levels = []
    while pa.types.is_list(lists.type):
        levels.append(lengths_of(lists))
        lists = lists.flatten()
    return levels


def null_lists_in(lists: pa.Array) -> int:
    """Return the number of null lists inside other lists."""
    count = 0
    while pa.types.is_list(lists.type.value_type):
        lists = lists.flatten()
        count += lists.null_count
    return count


def null_counts_of(lists: pa.Array) -> _Lengths:
    """Return the number of nulls inside each row: elements and inner lists."""
    owners = ends_of(lengths_of(lists))
    counts = np.zeros(len(lists), np.int64)
    while pa.types.is_list(lists.type):
        lists = lists.flatten()
        missing = ends_of(np.asarray(lists.is_null()).astype(np.int64))
        counts += missing[owners[1:]] - missing[owners[:-1]]
        if pa.types.is_list(lists.type):
            owners = ends_of(lengths_of(lists))[owners]
    return counts


@dataclass(frozen=True)
class Shapes:
    """The shapes of the rows of nested lists.

    Attributes
    ----------
    sizes : numpy.ndarray
        int64 ``(rows, depth)``; zeros for null rows, and arbitrary where a row is uneven.
    uneven : numpy.ndarray or None
        bool ``(rows,)``: which rows are not rectangular; None if all rows are.
    """

    sizes: _Lengths
    uneven: npt.NDArray[np.bool_] | None = None

    @property
    def counts(self) -> _Lengths:
        """Number of elements in each row."""
        return product(self.sizes)

    def common(self, rows: npt.NDArray[np.bool_] | None = None) -> tuple[int, ...] | None:
        """Return the shape that all rows, or all in a mask, share; None if they share no shape."""
        sizes = self.sizes if rows is None else self.sizes[rows]
        if len(sizes) == 0 or self.uneven is not None:
            return None
        first = sizes[0].tolist()
        # Column by column, since NumPy is slow along short rows.
        alike = all((sizes[:, i] == size).all() for i, size in enumerate(first))
        return tuple(first) if alike else None


def product(sizes: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Return the product of each row of `sizes`; 1 if `sizes` has no columns."""
    counts = np.ones(len(sizes), np.int64)
    for level in range(sizes.shape[1]):
        counts = sizes[:, level] if level == 0 else counts * sizes[:, level]
    return counts


def shapes_of(lists: pa.Array) -> Shapes:
    """Return the shape of each row."""
    sizes = np.zeros((len(lists), depth_of(lists.type)), np.int64)
    sizes[:, 0] = counts = lengths_of(lists)
    uneven = np.zeros(len(lists), np.bool_)
    for level in range(1, sizes.shape[1]):
        lists = lists.flatten()
        lengths = lengths_of(lists)
        filled = counts > 0
        if len(lists) and not lists.null_count and (lengths == lengths[0]).all():
            # The usual case: no need to find each list's row.
            sizes[filled, level] = lengths[0]
            counts = counts * lengths[0]
            continue
        ends = ends_of(counts)
        first = lengths[ends[:-1][filled]]
        sizes[filled, level] = first
        differ = lengths != np.repeat(first, counts[filled])
        if lists.null_count:
            differ |= np.asarray(lists.is_null())
        uneven[np.repeat(np.arange(len(counts)), counts)[differ]] = True
        sums = ends_of(lengths)
        counts = sums[ends[1:]] - sums[ends[:-1]]
    return Shapes(sizes, uneven if uneven.any() else None)


def lists_of_shapes(elements: pa.Array, sizes: _Lengths) -> pa.ListArray:
    """Return `elements` as rows with the shapes `sizes`, int64 ``(rows, depth)``.

    Raises
    ------
    ValueError
        If there are more than `MOST_EMPTY_LISTS` empty lists, as in damaged data.
    """
    for level in range(sizes.shape[1] - 1, -1, -1):
        count = product(sizes[:, :level])
        if level and count.sum() > max(len(elements), MOST_EMPTY_LISTS):
            raise ValueError(f"arrays of {count.sum()} empty lists")
        elements = _lists(np.repeat(sizes[:, level], count), elements)
    return elements


def lists_of_array(values: npt.NDArray[Any]) -> pa.ListArray:
    """Return an array of shape ``(rows, *shape)`` as nested lists with a view of its elements."""
    rows, *shape = values.shape
    return lists_of_shapes(
        pa.array(values.reshape(-1)), np.tile(np.array(shape, np.int64), (rows, 1))
    )


def lists_of_arrays(arrays: Sequence[npt.NDArray[Any] | None], type_: pa.DataType) -> pa.ListArray:
    """Return arrays with various shapes as nested lists; None becomes null.

    Raises
    ------
    ValueError
        If an array's number of dimensions is not the number of list levels.
    """
    depth = depth_of(type_)
    present = [array for array in arrays if array is not None]
    wrong = [array.ndim for array in present if array.ndim != depth]
    if wrong:
        raise ValueError(f"an array of {wrong[0]} dimensions among arrays of {depth}")
    sizes = np.zeros((len(arrays), depth), np.int64)
    if present:
        sizes[[array is not None for array in arrays]] = [array.shape for array in present]
    flat = pa.array(np.concatenate([array.reshape(-1) for array in present] or [np.empty(0)]))
    lists = lists_of_shapes(flat.cast(element_type(type_)), sizes)
    if len(present) == len(arrays):
        return lists
    mask = pa.array([array is None for array in arrays])
    return _lists(lengths_of(lists), lists.flatten(), mask)


def ends_of(lengths: _Lengths) -> _Lengths:
    """Return the offsets of lists of the given lengths: 0, then the end of each list."""
    ends = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=ends[1:])
    return ends


def _lists(lengths: _Lengths, inner: pa.Array, mask: pa.Array | None = None) -> pa.ListArray:
    ends = ends_of(lengths)
    if ends[-1] > np.iinfo(np.int32).max:
        raise OverflowError(f"{ends[-1]} values in the lists of one batch")
    return pa.ListArray.from_arrays(pa.array(ends.astype(np.int32)), inner, mask=mask)


#: Cuts a flat sequence of elements into pieces of the given lengths.
Split = Callable[[Any, list[int]], Sequence[Any]]


def rows_of(lists: pa.Array, flat: Any, split: Split, *, uneven: bool | None = None) -> list[Any]:
    """Return the rows as arrays or tensors, and uneven rows as (nested) lists of them.

    Parameters
    ----------
    lists : pyarrow.ListArray
        The rows. A null row becomes None.
    flat : numpy.ndarray or torch.Tensor
        All elements.
    split : callable
        Function that cuts `flat` into pieces.
    uneven : bool, optional
        Whether to return all rows as (nested) lists of one-dimensional arrays; by default only
        those that are not rectangular.
    """
    if depth_of(lists.type) == 1:
        return _pieces(lists, flat, split)
    shapes = shapes_of(lists)
    if uneven or (uneven is None and shapes.uneven is not None):
        nested = _pieces(lists, flat, split)
        if uneven or shapes.uneven is None:
            return nested
        even = split(flat, _totals_of(lists))
        return [
            row if is_uneven or row is None else piece.reshape(shape)
            for row, piece, is_uneven, shape in zip(
                nested, even, shapes.uneven.tolist(), shapes.sizes.tolist(), strict=True
            )
        ]
    pieces = split(flat, shapes.counts.tolist())
    rows = [p.reshape(shape) for p, shape in zip(pieces, shapes.sizes.tolist(), strict=True)]
    return _without_nulls(rows, lists)


def split_array(flat: npt.NDArray[Any], lengths: list[int]) -> list[npt.NDArray[Any]]:
    """Return views of an array, with the given lengths."""
    bounds = ends_of(np.array(lengths, np.int64)).tolist()
    return [flat[start:stop] for start, stop in pairwise(bounds)]


def _totals_of(lists: pa.Array) -> list[int]:
    """Return the number of innermost values in each row."""
    *outer, totals = levels_of(lists)
    for lengths in reversed(outer):
        sums, ends = ends_of(totals), ends_of(lengths)
        totals = sums[ends[1:]] - sums[ends[:-1]]
    return list(totals.tolist())


def _pieces(lists: pa.Array, flat: Any, split: Split) -> list[Any]:
    """Return nested lists of one-dimensional pieces; None for null."""
    lengths = lengths_of(lists).tolist()
    if not pa.types.is_list(lists.type.value_type):
        return _without_nulls(list(split(flat, lengths)), lists)
    inner = iter(_pieces(lists.flatten(), flat, split))
    return _without_nulls([list(islice(inner, length)) for length in lengths], lists)


def _without_nulls(rows: list[Any], lists: pa.Array) -> list[Any]:
    if lists.null_count:
        for row in np.flatnonzero(np.asarray(lists.is_null())).tolist():
            rows[row] = None
    return rows
