"""Convert a reader's columns and values for TensorFlow, and describe them with specs."""

from __future__ import annotations

import calendar
import datetime
from collections.abc import Iterable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm._petastorm_names import public
from mdstorm._rows import ArrayColumn
from mdstorm._transforms import declared_dtype
from mdstorm.errors import (
    InvalidArgumentError,
    NullInRowError,
    UnequalLengthsError,
    UnsupportedTypeError,
)
from mdstorm.unischema import Unischema
from mdstorm_backend.base import warn_user
from mdstorm_backend.format import Column, Values, shapes_of
from mdstorm_backend.loaders import null_error
from mdstorm_backend.loaders import tf as tf_loaders
from mdstorm_backend.loaders.tf import ColumnSpec
from mdstorm_backend.read import decode_late

_TENSORFLOW = "TensorFlow"
#: NumPy types that are returned as a different TensorFlow type.
_DTYPES = {
    np.str_: "string",
    np.bytes_: "string",
    Decimal: "string",
    np.datetime64: "int64",
    datetime.date: "int64",
    np.timedelta64: "int64",
    np.uint16: "int32",
    np.uint32: "int64",
    np.bool_: "bool",
}
#: NumPy kinds whose types have the same name in TensorFlow.
_SAME_KINDS = "iuf"


@public("mdstorm.tf_utils")
def date_to_nsec_from_epoch(dt: datetime.date) -> int:
    """Convert a date, or a time interpreted as UTC, to nanoseconds since 1970.

    Fractional seconds are dropped, as in Petastorm.
    """
    return calendar.timegm(dt.timetuple()) * 1_000_000_000


def column_for_tf(values: Values, spec: ColumnSpec, column: Column | None = None) -> Any:
    """Convert a column of a batch to the type that `spec` declares.

    Dates and timestamps become int64 nanoseconds since 1970 UTC, decimals become text, and strings
    become UTF-8 bytes. Numbers are cast to the declared type.

    Parameters
    ----------
    values : numpy.ndarray or pyarrow.Array
        The column, from an engine block or a reader.
    spec : ColumnSpec
        The spec of the returned column.
    column : Column, optional
        The stored column.

    Raises
    ------
    NullValueError
        If the column contains nulls that TensorFlow cannot represent.
    UnequalLengthsError
        If the arrays have different shapes.
    UnsupportedTypeError
        If TensorFlow has no type for the objects in the column.
    TransformError
        If the type or shape of the values differs from the declared one.
    """
    if column is not None and column.is_late and not isinstance(values, np.ndarray):
        values = decode_late(values, column)
    if isinstance(values, pa.Array):
        if pa.types.is_list(values.type) and not values.null_count and not spec.ragged:
            sizes = np.unique(shapes_of(values).sizes, axis=0).tolist()
            _check_lengths(["x".join(map(str, shape)) for shape in sizes], spec)
    elif values.dtype == object:
        values = _of_objects(values, spec)
    return tf_loaders.to_tf(values, spec)


def rows_for_tf(values: Values, spec: ColumnSpec, column: Column | None = None) -> Any:
    """Convert a column without nulls for datasets of rows, like `column_for_tf` for batches.

    As in Petastorm, scalar dates are converted to days, and scalar timestamps to microseconds.
    Times in arrays are converted to nanoseconds, even in zero-dimensional arrays.
    """
    if isinstance(values, pa.Array):
        if pa.types.is_decimal(values.type):
            values = np.array([str(value.normalize()) for value in values.to_pylist()], object)
        elif pa.types.is_temporal(values.type):
            values = values.to_numpy(zero_copy_only=False)
    is_time = isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind == "M"
    if is_time and not isinstance(column, ArrayColumn):
        return _days_or_microseconds(values)
    return column_for_tf(values, spec, column)


def refuse_nulls_in_rows(fields: Iterable[tuple[str, Any]]) -> None:
    """Raise NullInRowError if any field contains nulls, listing all such fields.

    Parameters
    ----------
    fields : iterable of tuple of str and object
        Each name with the field's value in one row, or its column for several rows.
    """
    found = dict.fromkeys(name for name, values in fields if _holds_none(values))
    if found:
        held = ", ".join(f'"{name}"=None' for name in found)
        raise NullInRowError(
            f"Encountered {held}. Tensorflow does not support None values as a tensor. Leave such "
            "rows out with a predicate, or give them a value in a transform_spec or with fill_nulls"
        )


def _holds_none(values: Any) -> bool:
    if isinstance(values, pa.Array):
        return bool(values.null_count)
    if isinstance(values, np.ndarray) and values.ndim and values.dtype == object:
        return any(value is None for value in values)
    return values is None


def value_for_tf(value: Any, spec: ColumnSpec) -> Any:
    """Convert one value in a row to the type that `spec` declares."""
    if isinstance(value, np.ndarray) and (value.dtype.kind in "OM" or spec.dtype == "string"):
        return column_for_tf(value[np.newaxis], spec)[0]
    if isinstance(value, (np.ndarray, np.number)):
        return value.astype(spec.dtype, copy=False)
    if isinstance(value, Decimal):
        return str(value.normalize())
    if isinstance(value, (str, bytes)):
        return np.array(value, object)  # NumPy strings lose a trailing NUL
    if isinstance(value, datetime.date):
        value = np.datetime64(value)
    if isinstance(value, np.datetime64):
        return _days_or_microseconds(np.asarray([value]))[0]
    return value


def _days_or_microseconds(values: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    is_date = np.datetime_data(values.dtype)[0] == "D"
    return values.astype("datetime64[D]" if is_date else "datetime64[us]").astype(np.int64)


def _of_objects(values: npt.NDArray[Any], spec: ColumnSpec) -> npt.NDArray[Any]:
    """Convert a column of Python objects to an array that TensorFlow can convert."""
    flat = values.reshape(-1)
    nulls = sum(value is None for value in flat)
    if nulls:
        raise null_error(spec.name, nulls, _TENSORFLOW)
    first = flat[0] if len(flat) else None
    if isinstance(first, np.ndarray):
        _check_lengths(["x".join(map(str, array.shape)) for array in flat], spec)
        return np.stack(flat.tolist())
    if isinstance(first, datetime.date):
        return np.array(flat.tolist(), "datetime64").reshape(values.shape)
    if isinstance(first, Decimal):
        return np.array([str(value) for value in flat], object).reshape(values.shape)
    if len(flat) and spec.dtype == "string" and not isinstance(first, (str, bytes, np.generic)):
        found = type(first).__name__
        raise UnsupportedTypeError(
            f"column {spec.name!r} contains objects of type {found}, for which TensorFlow has no "
            "type. Leave it out with schema_fields=[…], or turn it into text or numbers in a "
            "transform_spec",
            columns={spec.name: found},
        )
    return values


def _check_lengths(lengths: list[str], spec: ColumnSpec) -> None:
    if len(set(lengths)) > 1:
        shown = ", ".join(lengths[:20])
        raise UnequalLengthsError(
            f"Length of all values in column {spec.name!r} are expected to be the same length. Got "
            f"the following set of lengths: '{shown}'. Pad them in a transform_spec, leave the "
            "column out with schema_fields, or use make_tf_dataset of a converter, where arrays of "
            "different shapes are a RaggedTensor"
        )


def declared_spec(name: str, numpy_type: Any, shape: tuple[int | None, ...]) -> ColumnSpec:
    """Return the spec of a column with a declared NumPy type.

    Raises
    ------
    InvalidArgumentError
        If TensorFlow has no corresponding type; also a ValueError.
    """
    if numpy_type in _DTYPES and declared_dtype(numpy_type).kind != "u":
        return ColumnSpec(name, _DTYPES[numpy_type], tuple(shape))
    dtype = declared_dtype(numpy_type)
    if dtype.type in _DTYPES:
        stacked = dtype.name if dtype.kind == "u" else ""
        return ColumnSpec(name, _DTYPES[dtype.type], tuple(shape), stacked=stacked)
    if dtype.kind not in _SAME_KINDS or dtype.itemsize > 8:
        raise InvalidArgumentError(
            f"Unknown mapping of numpy {numpy_type!r} to tensorflow dtype: declare column {name!r} "
            "in edit_fields with a NumPy type of numbers or text, or leave it out with "
            "schema_fields"
        )
    return ColumnSpec(name, dtype.name, tuple(shape))


def batch_spec(name: str, numpy_type: Any, shape: tuple[int | None, ...]) -> ColumnSpec:
    """Return the spec of a declared column in batches, where arrays of varying shape are ragged.

    Raises
    ------
    InvalidArgumentError
        If TensorFlow has no corresponding type; also a ValueError.
    """
    spec = declared_spec(name, numpy_type, shape)
    if None not in shape:
        return spec
    rank = max(i for i, size in enumerate(shape) if size is None) + 1
    return replace(spec, shape=tuple(shape[rank:]), ragged=True, dimensions=rank)


def specs_of_schema(schema: Unischema) -> list[ColumnSpec]:
    """Return the specs of a schema's fields; emit Petastorm's warning for strings.

    Raises
    ------
    InvalidArgumentError
        If TensorFlow has no type for a field; also a ValueError.
    """
    for column in schema.fields.values():
        if column.numpy_dtype is np.str_:
            warn_user(
                "Tensorflow will convert all unicode strings back to bytes type. You may need to "
                f"decode values: field {column.name!r}",
                UnicodeWarning,
            )
    return [declared_spec(f.name, f.numpy_dtype, f.shape) for f in schema.fields.values()]


def specs_of_ngram(reader: Any) -> dict[int, list[ColumnSpec]]:
    """Return the specs of an n-gram's fields by offset."""
    offsets = range(min(reader.ngram.fields), max(reader.ngram.fields) + 1)
    return {offset: specs_of_schema(schema_at(reader, offset)) for offset in offsets}


def schema_at(reader: Any, offset: int) -> Unischema:
    """Return the schema of an n-gram's rows at an offset."""
    schema: Unischema = reader.ngram.get_schema_at_timestep(reader.schema, offset)
    return schema
