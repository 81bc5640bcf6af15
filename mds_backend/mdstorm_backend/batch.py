"""A batch: some rows as whole columns, never as a Python object per row.

A column whose values all have one size is a NumPy array of shape ``(rows, *shape)``: ``bool``, the
integer and float types, ``datetime64[D]`` for dates and ``datetime64[us]`` for timestamps. Anything
else, and any column but a floating-point one that holds nulls somewhere in its dataset, is an Arrow
array. A null in a floating-point column is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["Batch", "Values", "concat_values", "num_rows", "slice_batch", "take_values"]

Values: TypeAlias = npt.NDArray[np.generic] | pa.Array
Batch = dict[str, Values]


def num_rows(batch: Batch) -> int:
    """Rows of a batch; 0 for a batch without columns."""
    return len(next(iter(batch.values()))) if batch else 0


def slice_batch(batch: Batch, start: int, stop: int) -> Batch:
    """Rows `start` to `stop` as views: nothing is copied."""
    return {
        name: values[start:stop]
        if isinstance(values, np.ndarray)
        else values.slice(start, stop - start)
        for name, values in batch.items()
    }


def take_values(values: Values, rows: npt.NDArray[np.integer]) -> Values:
    """Copy the rows `rows` of a column, in that order."""
    if isinstance(values, np.ndarray):
        return np.take(values, rows, axis=0)
    return values.take(pa.array(rows))


def concat_values(parts: Sequence[Values]) -> Values:
    """Join pieces of one column; Arrow if any of them is."""
    if len(parts) == 1:
        return parts[0]
    if all(isinstance(part, np.ndarray) for part in parts):
        return np.concatenate(parts)
    return pa.concat_arrays([as_arrow(part) for part in parts])


def as_arrow(values: Values) -> pa.Array:
    """The column as an Arrow array; two-dimensional arrays become lists."""
    if not isinstance(values, np.ndarray):
        return values
    if values.ndim == 1:
        return pa.array(values)
    rows, length = len(values), int(np.prod(values.shape[1:]))
    offsets = np.arange(rows + 1, dtype=np.int32) * length
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(values.reshape(-1)))


def fill_null(values: pa.Array, fill: object) -> pa.Array:
    """Replace the null rows of an Arrow array by `fill`."""
    return pc.fill_null(values, pa.scalar(fill, values.type))
