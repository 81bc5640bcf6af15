"""Convert the Arrow arrays of a row group to the values that readers deliver."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend.base.user_warnings import warn_user
from mdstorm_backend.format.encodings.encode_numbers import to_numpy
from mdstorm_backend.format.schema import Column
from mdstorm_backend.format.values.batch import Values
from mdstorm_backend.format.values.list_rows import rows_of, split_array
from mdstorm_backend.format.values.nested_lists import elements_of, with_nan_elements
from mdstorm_backend.format.values.plain_arrow import plain_type, plain_values
from mdstorm_backend.read.logical import to_logical, view_dtype


def plain(column: Column, values: pa.Array) -> pa.Array:
    """Return the values of a column as an array of its `Column.arrow_type`.

    Timestamps are truncated to microseconds, with a warning if that loses nanoseconds.
    """
    try:
        found = plain_values(values)
    except pa.ArrowInvalid:
        found = values.cast(plain_type(values.type), safe=False)
        warn_user(
            f"column {column.name!r} of {column.origin.url} holds nanoseconds, which are "
            "truncated: times are delivered in microseconds. Store them as integers to keep all "
            "digits"
        )
    return found if found.type == column.arrow_type else found.cast(column.arrow_type)


def delivered(column: Column, values: pa.Array, *, exact_nulls: bool) -> Values:
    """Return plain values in the form in which an MDS shard delivers the column.

    Parameters
    ----------
    column : Column
        The column.
    values : pyarrow.Array
        What `plain` returned; views of it may be returned, which are read-only.
    exact_nulls : bool
        Deliver nulls of floating-point columns as nulls, not as NaN.
    """
    dtype = column.parsed_encoding.dtype
    if dtype is None:
        return values
    if column.is_array:
        return _arrays(column, values, exact_nulls=exact_nulls)
    valid = np.asarray(values.is_valid()) if values.null_count else None
    return to_logical(column, to_numpy(values, dtype), valid, None, exact_nulls=exact_nulls)


def array_of(column: Column, row: pa.ListArray) -> Any:
    """Return the only row of some lists without nulls as an array of NumPy, of its own.

    Nested lists of various lengths are lists of arrays.
    """
    (array,) = rows_of(row, _numbers(column, elements_of(row)), split_array)
    return array


def _numbers(column: Column, elements: pa.Array) -> npt.NDArray[Any]:
    dtype, viewed = column.parsed_encoding.dtype, view_dtype(column)
    assert dtype is not None
    stored = to_numpy(elements, dtype)
    return stored.astype("datetime64[D]") if viewed is None else stored.view(viewed).copy()


def _arrays(column: Column, lists: pa.Array, *, exact_nulls: bool) -> Values:
    if column.is_numpy(exact_nulls=exact_nulls):
        dtype = column.parsed_encoding.dtype
        assert dtype is not None
        shape = column.value_shape or (0,)
        stored = to_numpy(elements_of(lists), dtype).reshape(len(lists), *shape)
        return to_logical(column, stored, None, None, exact_nulls=exact_nulls)
    return with_nan_elements(lists) if column.is_floating and not exact_nulls else lists
