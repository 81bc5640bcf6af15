"""Conversion of stored columns to the values that readers return."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm.errors import InvalidArgumentError
from mdstorm_backend.base import arrow_compute as pc
from mdstorm_backend.format import (
    Batch,
    Column,
    Values,
    beyond_nanoseconds,
    date_objects,
    depth_of,
    python_objects,
)
from mdstorm_backend.read import column_to_numpy, decode_late, objects, scalars_to_numpy

#: NumPy types of string and binary scalars, which Arrow converts to Python objects.
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
        The columns, including at least the fields of `row_type`.
    row_type : namedtuple type
        Type of the rows.
    column_of : callable
        Returns the stored column with a given name, or None if a transform created the column.
    """
    columns = [cells(batch[name], column_of(name)) for name in row_type._fields]
    return map(row_type._make, zip(*columns, strict=True))


class ArrayColumn(Column):
    """A column of zero-dimensional arrays, which rows contain as arrays rather than scalars."""

    @classmethod
    def of(cls, column: Column) -> ArrayColumn:
        """Return an `ArrayColumn` with the attributes of another column."""
        return cls(**{each.name: getattr(column, each.name) for each in fields(column)})

    def is_numpy(self, *, exact_nulls: bool = False) -> bool:
        """Whether values are NumPy arrays, which requires that no value is null."""
        return super().is_numpy(exact_nulls=True)


def cells(values: Values, column: Column | None = None) -> list[Any]:
    """Return the values of a column as a list with one value per row.

    Scalars are NumPy scalars, including strings (``np.str_``, ``np.bytes_``). Decimals are
    `Decimal`, dates ``datetime64[D]``, and timestamps ``datetime64[us]``. Arrays are views of one
    NumPy array with the elements of all rows. A null is None, or NaN in a column of floating-point
    scalars.

    Raises
    ------
    EncodingError
        If Python's types cannot hold a value; see `python_objects`.
    """
    if isinstance(values, np.ndarray):
        is_view = isinstance(column, ArrayColumn) and values.dtype.kind != "O"
        return [values[row, ...] for row in range(len(values))] if is_view else list(values)
    if isinstance(column, ArrayColumn):
        nulls = values.is_null().to_pylist()
        plain = zip(cells(values), nulls, strict=True)
        return [None if is_null else np.asarray(value) for value, is_null in plain]
    if column is not None and column.is_late:
        return list(decode_late(values, column))
    with python_objects("" if column is None else column.name, values):
        return _arrow_cells(values, column)


def _arrow_cells(values: pa.Array, column: Column | None) -> list[Any]:
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
    """Convert booleans, numbers, dates and timestamps; nulls are None, or NaN for floats."""
    if pa.types.is_floating(values.type) or not values.null_count:
        return list(scalars_to_numpy(values, has_nulls=False))
    nulls = np.flatnonzero(np.asarray(values.is_null())).tolist()
    if not pa.types.is_temporal(values.type):
        values = pc.fill_null(values, False if pa.types.is_boolean(values.type) else 0)
    result = list(scalars_to_numpy(values, has_nulls=False))
    for row in nulls:
        result[row] = None
    return result


def batch_array(name: str, values: Values, column: Column | None = None) -> npt.NDArray[Any]:
    """Convert a column to the array that the batch reader returns.

    - Numbers and booleans keep their dtype. With nulls, integers become float64 with NaN, and
      booleans become objects.
    - Strings are ``<U`` arrays. If one is null or ends with NUL, which such arrays cannot
      represent, they are objects with None for null. Binaries, decimals and dates always are.
    - Timestamps are ``datetime64[ns]``.
    - Arrays are one array of shape ``(rows, …)`` if all rows have the same shape and none is null,
      and otherwise one object per row. The engine's `column_to_numpy` converts nested arrays.

    Parameters
    ----------
    name : str
        Column name for error messages.
    values : numpy.ndarray or pyarrow.Array
        The values read by the engine; a NumPy array may be returned unchanged.
    column : Column, optional
        The stored column. The dtype depends on whether it has nulls anywhere in the dataset;
        without it, only on the nulls in `values`.

    Raises
    ------
    InvalidArgumentError
        If a timestamp does not fit into nanoseconds; also ValueError.
    EncodingError
        If Python's types cannot hold a value; see `python_objects`.
    """
    if isinstance(values, np.ndarray):
        return _of_numpy(name, values)
    if column is not None and column.is_late:
        return decode_late(values, column)
    with python_objects(name, values):
        return _of_arrow(name, values, column)


def _of_arrow(name: str, values: pa.Array, column: Column | None) -> npt.NDArray[Any]:
    if column is not None and column.is_array and depth_of(values.type) > 1:
        return column_to_numpy(values, column)
    if _is_list(values.type):
        return _of_lists(name, values, column)
    if pa.types.is_string(values.type) or pa.types.is_large_string(values.type):
        return _of_texts(values)
    has_nulls = values.null_count > 0 or (column is not None and column.null_count > 0)
    return _of_scalars(name, values, has_nulls)


def element_arrays(name: str, values: pa.Array, column: Column | None) -> npt.NDArray[Any]:
    """Flatten an Arrow list array to a NumPy array with the elements of all rows."""
    flat = values.flatten()
    if _is_list(flat.type):
        return objects(flat.to_pylist())
    has_nulls = flat.null_count > 0 or (column is not None and column.element_null_count > 0)
    return _of_scalars(name, flat, has_nulls)


def split_rows(flat: npt.NDArray[Any], values: pa.Array) -> list[npt.NDArray[Any] | None]:
    """Split the flattened elements of an Arrow list array into rows, with None for null rows."""
    lengths = np.asarray(pc.fill_null(pc.list_value_length(values), 0))
    bounds = np.concatenate([[0], np.cumsum(lengths)]).tolist()
    rows: list[npt.NDArray[Any] | None] = [flat[start:stop] for start, stop in pairwise(bounds)]
    if values.null_count:
        for row in np.flatnonzero(np.asarray(values.is_null())).tolist():
            rows[row] = None
    return rows


def _is_list(type_: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_list(type_) or types.is_large_list(type_) or types.is_fixed_size_list(type_)
    )


def _of_numpy(name: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if values.dtype.kind != "M":
        return values
    if values.dtype == "datetime64[D]":
        return date_objects(name, values)
    return _nanoseconds(name, values)


def _nanoseconds(name: str, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if values.dtype == "datetime64[ns]":
        return values
    if beyond_nanoseconds(values) is not None:
        raise InvalidArgumentError(
            f"column {name!r} holds a timestamp that would result in out of bounds timestamp: "
            "batches use nanoseconds, which cover the years 1677 to 2262. Leave the column out "
            "with schema_fields, or store it as a number"
        )
    return values.astype("datetime64[ns]")


def _of_scalars(name: str, values: pa.Array, has_nulls: bool) -> npt.NDArray[Any]:
    type_ = values.type
    if pa.types.is_timestamp(type_):
        in_us = values.cast(pa.timestamp("us", type_.tz), safe=False)
        return _nanoseconds(name, scalars_to_numpy(in_us, has_nulls))
    if pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_date(type_):
        return objects(values.to_pylist())
    if pa.types.is_boolean(type_) and has_nulls:
        return objects(values.to_pylist())
    return scalars_to_numpy(values, has_nulls)


def _of_texts(values: pa.Array) -> npt.NDArray[Any]:
    cells = values.to_pylist()
    if values.null_count or pc.any(pc.ends_with(values, "\0")).as_py():
        return objects(cells)
    return np.array(cells, dtype=np.str_)


def _of_lists(name: str, values: pa.Array, column: Column | None) -> npt.NDArray[Any]:
    flat = element_arrays(name, values, column)
    if not values.null_count and len(values):
        lengths = np.asarray(pc.list_value_length(values))
        if (lengths == lengths[0]).all():
            return flat.reshape(len(values), int(lengths[0]))
    return objects(split_rows(flat, values))
