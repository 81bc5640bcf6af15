"""The rows of Arrow lists as arrays, or tensors, and as lists of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import islice, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend.format.values.nested_lists import (
    depth_of,
    ends_of,
    lengths_of,
    levels_of,
    shapes_of,
)

#: Cuts a flat sequence of elements into pieces of the given lengths.
Split = Callable[[Any, list[int]], Sequence[Any]]


def rows_of(lists: pa.Array, flat: Any, split: Split, *, uneven: bool | None = None) -> list[Any]:
    """Return the rows as arrays or tensors; a row that is not rectangular is a list of them.

    Parameters
    ----------
    lists : pyarrow.ListArray
        The lists. A null among them is None.
    flat : numpy.ndarray or torch.Tensor
        All elements.
    split : callable
        Cuts it.
    uneven : bool, optional
        Whether all rows are lists, of lists, of one-dimensional arrays; by default those that are
        not rectangular.
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
    """Cut an array into pieces of the given lengths, views of it."""
    bounds = ends_of(np.array(lengths, np.int64)).tolist()
    return [flat[start:stop] for start, stop in pairwise(bounds)]


def _totals_of(lists: pa.Array) -> list[int]:
    """Return how many innermost values each row has."""
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
