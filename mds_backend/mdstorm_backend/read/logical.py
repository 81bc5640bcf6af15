"""Convert stored values to logical values: booleans, dates, decimals, nested types, nulls."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mdstorm_backend.format.encodings.json_text import decode_lists
from mdstorm_backend.format.schema import Column
from mdstorm_backend.format.values import nested_lists
from mdstorm_backend.format.values.batch import Values, as_arrow

Mask = npt.NDArray[np.bool_]


def to_logical(
    column: Column, stored: Values, valid: Mask | None, elements: Mask | None, *, exact_nulls: bool
) -> Values:
    """Convert the stored values of a column to its logical type, with nulls.

    Parameters
    ----------
    column : Column
        The column, with the null counts of the whole dataset.
    stored : numpy.ndarray or pyarrow.Array
        Values as decoded from the shard's bytes. Views of them may be returned.
    valid, elements : numpy.ndarray or None
        Which rows, and which elements of their arrays, are not null; None for all.
    exact_nulls : bool
        Deliver nulls of floating-point columns as nulls, not as NaN.
    """
    if column.is_array and isinstance(stored, pa.StringArray):
        return _parsed(column, stored, valid, exact_nulls=exact_nulls)
    if column.spark_type is None:
        stored = _in_general_form(column, stored)
        if isinstance(stored, np.ndarray) and stored.dtype == object:
            return stored if valid is None else _with_none(stored, valid)
    values = _typed(column, stored)
    if column.is_numpy(exact_nulls=exact_nulls):
        return values
    values = as_lists(column, values)
    if values.type != column.arrow_type and (column.is_array or isinstance(stored, np.ndarray)):
        values = values if _states_dtype(column) else values.cast(column.arrow_type)
    if elements is not None and (exact_nulls or not column.is_floating):
        values = nested_lists.with_elements(
            values, pc.if_else(pa.array(elements), nested_lists.elements_of(values), None)
        )
    if valid is not None:
        values = pc.if_else(pa.array(valid), values, pa.scalar(None, values.type))
    if column.spark_type is None:
        return values
    # Values stored as text are parsed only now: placeholders of nulls might not parse.
    return column.parsed_encoding.to_logical(values, column.arrow_type)


def as_lists(column: Column, values: Values) -> pa.Array:
    """Convert values to Arrow; arrays become nested lists if the type is nested, else flat."""
    if not isinstance(values, np.ndarray):
        return values
    if values.ndim > 2 and nested_lists.depth_of(column.arrow_type) == values.ndim - 1:
        return nested_lists.lists_of_array(values)
    return as_arrow(values)


def no_values(column: Column, *, exact_nulls: bool) -> Values:
    """Return the values of the column in a batch without rows."""
    if not column.is_numpy(exact_nulls=exact_nulls):
        return pa.array([], column.arrow_type)
    stored = np.empty((0, *(column.value_shape or ())), column.parsed_encoding.dtype)
    return to_logical(column, stored, None, None, exact_nulls=exact_nulls)


def view_dtype(column: Column) -> np.dtype[Any] | None:
    """Return the NumPy dtype that views stored bytes as the logical value, or array element.

    None if values have to be converted, such as days to ``datetime64[D]``.
    """
    type_ = column.element_type if column.is_array else column.arrow_type
    if pa.types.is_date(type_):
        return None
    if pa.types.is_boolean(type_):
        return np.dtype(np.bool_)
    if pa.types.is_timestamp(type_):
        return np.dtype("datetime64[us]")
    stored = column.parsed_encoding.dtype
    return None if stored is None else stored.newbyteorder("=")


def _parsed(column: Column, texts: pa.Array, valid: Mask | None, *, exact_nulls: bool) -> pa.Array:
    """Parse nested arrays that a shard stores as JSON, which includes their null elements."""
    values = decode_lists(texts, column.arrow_type)
    if column.is_floating and not exact_nulls:
        values = nested_lists.with_nan_elements(values)
    if valid is None:
        return values
    return pc.if_else(pa.array(valid), values, pa.scalar(None, values.type))


def _with_none(objects: npt.NDArray[Any], valid: Mask) -> npt.NDArray[Any]:
    result: npt.NDArray[Any] = objects.copy()
    result[~valid] = None
    return result


def _states_dtype(column: Column) -> bool:
    """Whether each value of an array column stores its own dtype."""
    return column.is_array and column.parsed_encoding.dtype is None


def _in_general_form(column: Column, stored: Values) -> Values:
    """Convert values of a shard whose encoding differs from the dataset's to the dataset's form."""
    dtype = column.parsed_encoding.dtype
    if isinstance(stored, np.ndarray):
        if stored.dtype == object:
            return stored
        if column.is_array and stored.ndim > 2 and column.value_shape is None:
            return np.fromiter(stored, object, len(stored))
        return stored if dtype is None or stored.dtype == dtype else stored.astype(dtype)
    if nested_lists.depth_of(stored.type) > 1:
        rows = nested_lists.rows_of(
            stored, np.array(nested_lists.elements_of(stored)), nested_lists.split_array
        )
        return np.fromiter((row.copy() for row in rows), object, len(rows))
    if pa.types.is_list(stored.type) or stored.type == column.arrow_type:
        return stored
    return stored.cast(column.arrow_type)


def _typed(column: Column, stored: Values) -> Values:
    if column.spark_type is None:
        return stored
    if isinstance(stored, np.ndarray):
        if stored.dtype == object:  # arrays that differ in dimensions, or are empty
            return nested_lists.lists_of_arrays(list(stored), column.arrow_type)
        return _numpy_typed(column, stored)
    if column.is_array:
        found, wanted = nested_lists.depth_of(stored.type), nested_lists.depth_of(column.arrow_type)
        if found != wanted:
            raise ValueError(f"arrays of {found} dimensions in a column of those of {wanted}")
        flat = pa.array(_numpy_typed(column, np.asarray(nested_lists.elements_of(stored))))
        return nested_lists.with_elements(stored, flat.cast(column.element_type))
    return stored


def _numpy_typed(column: Column, stored: npt.NDArray[Any]) -> npt.NDArray[Any]:
    dtype = view_dtype(column)
    return stored.astype("datetime64[D]") if dtype is None else stored.view(dtype)
