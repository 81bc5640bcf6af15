"""Convert a batch to the rows that Petastorm's row reader delivers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from mdstorm._rows.batch_values import element_arrays, split_rows
from mdstorm_backend.format import Batch, Column, Values, depth_of
from mdstorm_backend.read import LateDecoder, column_to_numpy, scalars_to_numpy

#: Types of strings and binaries, which Arrow converts to Python objects.
_SCALAR_TYPES: dict[pa.DataType, type] = {
    pa.string(): np.str_,
    pa.large_string(): np.str_,
    pa.binary(): np.bytes_,
    pa.large_binary(): np.bytes_,
}


def rows_of(
    batch: Batch, row_type: Any, column_of: Callable[[str], Column | None]
) -> Iterator[Any]:
    """Yield the rows of a batch.

    Parameters
    ----------
    batch : Batch
        Its columns, at least those of `row_type`.
    row_type : namedtuple type
        What a row is made of.
    column_of : callable
        Returns the stored column of a name; None for columns that a transform made.
    """
    columns = [cells(batch[name], column_of(name)) for name in row_type._fields]
    return map(row_type._make, zip(*columns, strict=True))


def cells(values: Values, column: Column | None = None) -> list[Any]:
    """Return the values of one column, one per row.

    Scalars are NumPy scalars, strings among them (``np.str_``, ``np.bytes_``), decimals `Decimal`,
    dates ``datetime64[D]`` and timestamps ``datetime64[us]``; arrays are NumPy arrays, views of one
    that holds those of all rows. A null is None, but in a column of floating-point numbers NaN.
    """
    if isinstance(values, np.ndarray):
        return list(values)
    if column is not None and column.is_late:
        return list(LateDecoder(column)(values))
    type_ = values.type
    if column is not None and column.is_array and depth_of(type_) > 1:
        return list(column_to_numpy(values, column))
    if pa.types.is_list(type_) or pa.types.is_large_list(type_):
        name = "" if column is None else column.name
        return split_rows(element_arrays(name, values, column), values)
    make = _SCALAR_TYPES.get(type_)
    if make is not None:
        return [None if value is None else make(value) for value in values.to_pylist()]
    if pa.types.is_decimal(type_) or pa.types.is_nested(type_) or pa.types.is_null(type_):
        return values.to_pylist()  # type: ignore[no-any-return]
    return _numbers(values)


def _numbers(values: pa.Array) -> list[Any]:
    """Booleans, numbers, dates and timestamps: null is None, unless the numbers have a NaN."""
    if pa.types.is_floating(values.type) or not values.null_count:
        return list(scalars_to_numpy(values, has_nulls=False))
    nulls = np.flatnonzero(np.asarray(values.is_null())).tolist()
    if not pa.types.is_temporal(values.type):
        values = pc.fill_null(values, False if pa.types.is_boolean(values.type) else 0)
    result = list(scalars_to_numpy(values, has_nulls=False))
    for row in nulls:
        result[row] = None
    return result
