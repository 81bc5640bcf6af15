"""Decode stored columns into Unischema fields, one column at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm import codecs
from mdstorm._array_files import Shape, decode_npy, inflate_npz
from mdstorm._rows import ArrayColumn
from mdstorm._schema import UnischemaField
from mdstorm.errors import UnsupportedTypeError
from mdstorm.unischema import Unischema
from mdstorm_backend import format as mds
from mdstorm_backend.read import column_to_numpy, objects

#: Converts stored values, read with `exact_nulls`, to the values that the engine returns for the
#: field.
DecodeColumn: TypeAlias = Callable[[mds.Values], mds.Values]

#: Codecs whose values are decoded one column at a time. Subclasses may decode differently, so they
#: are not included.
_KNOWN = {
    type(None),
    codecs.CompressedImageCodec,
    codecs.CompressedNdarrayCodec,
    codecs.NdarrayCodec,
    codecs.ScalarCodec,
}

_IMAGE_ENCODINGS = {"jpeg": "jpeg", "jpg": "jpeg", "jpe": "jpeg"}
_BOOLEANS: mds.SparkType = {"type": "array", "elementType": "boolean", "containsNull": False}
#: Encoding and Spark type of scalars, by dtype kind. Numbers are encoded as their dtype.
_SCALARS: dict[str, tuple[str, mds.SparkType]] = {
    "b": ("uint8", "boolean"),
    "M": ("int64", "timestamp_ntz"),
    "S": ("bytes", "binary"),
    "U": ("str", "string"),
}


@dataclass(frozen=True)
class DecodedField:
    """A field and its decoder.

    Attributes
    ----------
    column : Column
        The field as a column of the reading core.
    decode : callable or None
        Decodes stored values; None if no decoding is needed.
    cast : str or None
        Floating-point dtype to which the decoded values are cast; None keeps their dtype.
    """

    column: mds.Column
    decode: DecodeColumn | None
    cast: str | None = None

    @property
    def is_as_stored(self) -> bool:
        """Whether values are returned as they are stored."""
        return self.decode is None and self.cast is None


@dataclass(frozen=True)
class Floats:
    """The types in which decimals and floating-point numbers are read.

    Attributes
    ----------
    decimals : {"float64", "float32", "decimal", None}
        Type of decimals and of arrays of decimals; the last two keep them as decimals.
    dtype : {"float32", "float64", None}
        Type of floating-point scalars and arrays; None keeps their types.
    """

    decimals: str | None = None
    dtype: str | None = None

    def __bool__(self) -> bool:
        """Whether any column may be converted."""
        return mds.become_floats(self.decimals) or self.dtype is not None

    def __str__(self) -> str:
        decimals = self.decimals if mds.become_floats(self.decimals) else ""
        return decimals if self.dtype is None else f"{decimals} dtype={self.dtype}"


#: Every column keeps its type.
AS_STORED = Floats()


def decoded_field(field: UnischemaField, stored: mds.Column) -> DecodedField:
    """Choose the decoder for a field.

    Parameters
    ----------
    field : UnischemaField
        The field.
    stored : Column
        The column that contains the field, in a Parquet file or an MDS dataset.
    """
    column, codec = replace(stored, nullable=bool(field.nullable)), type(field.codec)
    if codec not in _KNOWN:
        return _by_codec(field, column)
    if stored.is_array:
        return _arrays_of_numbers(field, column)
    if codec is codecs.CompressedImageCodec:
        encoding = _IMAGE_ENCODINGS.get(field.codec.image_codec, "png")
        image = column if stored.is_image else replace(column, encoding=encoding, spark_type=None)
        return DecodedField(image, None)
    if codec is codecs.NdarrayCodec or codec is codecs.CompressedNdarrayCodec:
        column = column if field.shape else ArrayColumn.of(column)
        if stored.parsed_encoding.kind == "bytes":
            return _files_of_arrays(field, column)
        # MDS stores zero-dimensional arrays as scalars, whose nulls must not become NaN.
        return DecodedField(column, None if column.is_numpy() else lambda values: values)
    return _scalars(field, column)


def array_column(column: mds.Column, dtype: np.dtype[Any], shape: Shape) -> mds.Column:
    """Return the column as a column of arrays, or of scalars if the shape is empty."""
    if dtype.name not in mds.DTYPES and dtype.kind != "b":
        return replace(column, encoding="bytes", spark_type=None)
    stored = "uint8" if dtype.kind == "b" else dtype.name
    if not shape:
        return replace(column, encoding=stored, spark_type="boolean" if dtype.kind == "b" else None)
    general = replace(column, encoding=f"ndarray:{stored}", spark_type=None, length=None)
    if len(shape) == 1:
        spark_type = _BOOLEANS if dtype.kind == "b" else None
        return replace(general, spark_type=spark_type, length=shape[0])
    if None in shape or 0 in shape:
        return general
    return replace(general, encoding=f"{general.encoding}:{','.join(map(str, shape))}")


def is_untyped(column: mds.Column) -> bool:
    """Whether MDS has no type for the values in an array column."""
    return column.encoding == "bytes" and column.spark_type is None


def _files_of_arrays(field: UnischemaField, column: mds.Column) -> DecodedField:
    dtype = np.dtype(field.numpy_dtype)
    is_compressed = type(field.codec) is codecs.CompressedNdarrayCodec
    has_nulls = column.null_count > 0

    def decode(values: mds.Values) -> mds.Values:
        files = inflate_npz(values, field.shape) if is_compressed else values
        return decode_npy(files, dtype, field.shape, has_nulls=has_nulls)

    return DecodedField(array_column(column, dtype, field.shape), decode)


def _arrays_of_numbers(field: UnischemaField, column: mds.Column) -> DecodedField:
    """Decode columns stored as arrays, either by mdstorm or by Spark without a codec."""
    dtype = np.dtype(field.numpy_dtype)
    stored = column.parsed_encoding
    if dtype.kind not in "biuf" or not field.shape:
        return DecodedField(column, None)
    is_bool = column.spark_type is not None and pa.types.is_boolean(column.arrow_type.value_type)
    is_same = stored.dtype == dtype or (is_bool and dtype.kind == "b")
    if len(field.shape) == 1:
        if is_same:
            return DecodedField(column, None)
        target = array_column(column, dtype, (column.length,))
        return DecodedField(target, partial(_cast_arrays, dtype=dtype))
    if is_same and not column.null_count:
        return DecodedField(column, None)
    return DecodedField(column, partial(_shaped, dtype=dtype, shape=stored.shape))


def _cast_arrays(values: mds.Values, dtype: np.dtype[Any]) -> mds.Values:
    if not isinstance(values, np.ndarray):
        return values.cast(pa.list_(pa.from_numpy_dtype(dtype)))
    if values.dtype == object:
        return objects([None if row is None else row.astype(dtype) for row in values])
    return values.astype(dtype)


def _shaped(values: mds.Values, dtype: np.dtype[Any], shape: tuple[int, ...] | None) -> mds.Values:
    """Restore what the engine does not store: booleans, and the shapes of arrays with nulls."""
    if isinstance(values, np.ndarray) or shape is None:
        return _cast_arrays(values, dtype)
    rows = column_to_numpy(values, None)
    return objects([None if row is None else row.reshape(shape).astype(dtype) for row in rows])


def _scalars(field: UnischemaField, column: mds.Column) -> DecodedField:
    target = _scalar_column(field, column)
    if field.numpy_dtype is Decimal:
        if column.encoding == "str_decimal":
            return DecodedField(column, None)
        return DecodedField(target, lambda values: pa.array(values).cast(pa.string()))
    if field.shape or is_untyped(target) or column.is_late or column.is_nested:
        return DecodedField(column, None)
    is_time = pa.types.is_date(column.arrow_type) or pa.types.is_timestamp(column.arrow_type)
    if target.arrow_type == column.arrow_type or (is_time and target.spark_type == "timestamp_ntz"):
        return DecodedField(column, None)
    return DecodedField(target, partial(cast_scalars, type_=target.arrow_type))


def _scalar_column(field: UnischemaField, column: mds.Column) -> mds.Column:
    """Return the column as scalars of the field's type; untyped if MDS has no such type."""
    dtype = np.dtype(field.numpy_dtype)
    encoding, spark_type = _SCALARS.get(dtype.kind, (dtype.name, None))
    if field.numpy_dtype is Decimal:
        encoding = "str_decimal"
    elif dtype.kind not in "biufSUM":
        encoding = "bytes"
    return replace(column, encoding=encoding, spark_type=spark_type)


def _by_codec(field: UnischemaField, column: mds.Column) -> DecodedField:
    """Decode with a user-defined codec, one value at a time."""
    if field.shape:
        target = array_column(column, np.dtype(field.numpy_dtype), field.shape)
    else:
        target = _scalar_column(field, column)
    if is_untyped(target):
        raise UnsupportedTypeError(
            f"field {field.name!r} has a custom codec and the type {field.numpy_dtype}, which MDS "
            "cannot store decoded: declare numbers, text or bytes, or arrays of numbers"
        )
    join = _arrays if field.shape else _scalar_values

    def decode(values: mds.Values) -> mds.Values:
        found = column_to_numpy(values, None)
        return join([None if v is None else field.codec.decode(field, v) for v in found], target)

    return DecodedField(target, decode)


def _arrays(rows: list[Any], column: mds.Column) -> mds.Values:
    """Join arrays into one column, in the form that the engine uses."""
    if column.is_numpy() and rows:
        stacked: npt.NDArray[Any] = np.stack(rows)
        return stacked
    if all(row is None or row.ndim == 1 for row in rows):
        return pa.array(rows, column.arrow_type)
    return objects(rows)


def _scalar_values(rows: list[Any], column: mds.Column) -> pa.Array:
    values: Any = rows
    if column.encoding == "str_decimal":
        values = [None if row is None else str(row) for row in rows]
    elif column.spark_type == "timestamp_ntz":
        # NumPy would truncate the nanoseconds of a pandas.Timestamp.
        times = [row.to_datetime64() if hasattr(row, "to_datetime64") else row for row in rows]
        found = np.array(times, "datetime64")
        values = found.astype("datetime64[us]")
        if (values != found)[~np.isnat(found)].any():
            raise ValueError("times with sub-microsecond precision, which would be lost")
    return pa.array(values, column.arrow_type)


def cast_scalars(values: mds.Values, type_: pa.DataType) -> mds.Values:
    """Cast scalars to `type_`.

    Fractions are truncated when casting to integers, as in NumPy; strings are parsed.

    Parameters
    ----------
    values : numpy.ndarray or pyarrow.Array
        The scalars; null stays null.
    type_ : pyarrow.DataType
        A boolean, number, string, binary or timestamp.

    Returns
    -------
    numpy.ndarray or pyarrow.Array
        A NumPy array if numbers or booleans were passed as one and `type_` is a number.

    Raises
    ------
    ValueError, pyarrow.ArrowException
        If a value does not fit.
    """
    if not isinstance(values, np.ndarray):
        return _cast_arrow(values, type_)
    if values.dtype.kind in "biuf" and mds.is_number(type_):
        return _cast_numbers(values, mds.numpy_dtype(type_))
    return _cast_arrow(mds.as_arrow(values), type_)


def _cast_arrow(values: pa.Array, type_: pa.DataType) -> pa.Array:
    types = pa.types
    if types.is_decimal(values.type) and types.is_integer(type_):
        values = values.cast(pa.float64())
    cuts_off = types.is_floating(values.type) and types.is_integer(type_)
    if cuts_off:
        found = np.asarray(values.drop_null()) if values.null_count else np.asarray(values)
        _cast_numbers(found, mds.numpy_dtype(type_))
    to_float = types.is_integer(values.type) and types.is_floating(type_)
    return values.cast(type_, safe=not (cuts_off or to_float))


def _cast_numbers(values: npt.NDArray[Any], dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    if dtype.kind in "iu" and values.dtype.kind != "b" and values.size:
        lowest, highest = np.iinfo(dtype).min, np.iinfo(dtype).max
        least, greatest = values.min(), values.max()  # both are NaN if any value is
        if not (lowest <= _integer(least) and _integer(greatest) <= highest):
            raise ValueError(f"values from {least} to {greatest}, which do not fit into {dtype}")
    return values.astype(dtype)


def _integer(value: Any) -> int:
    """Return a number as an integer; raise ValueError if it is NaN or infinite."""
    if value != value or value in (np.inf, -np.inf):
        raise ValueError(f"{value}, which is not an integer")
    return int(value)


def with_floats(field: DecodedField, floats: Floats) -> DecodedField:
    """Return a field that is read as the requested floating-point type.

    Parameters
    ----------
    field : DecodedField
        Any field. Fields without decimals or floating-point numbers are returned unchanged.
    floats : Floats
        The types. Nulls inside arrays of decimals become NaN.
    """
    column = field.column
    if column.parsed_encoding.is_opaque:
        return field
    is_text = column.encoding == "str_decimal" and column.spark_type is None
    if is_text or mds.holds_decimals(column.arrow_type):
        decimals = floats.decimals
        return _decimals(field, decimals) if mds.become_floats(decimals) else field
    stored = column.parsed_encoding.dtype
    if floats.dtype is None or stored is None or stored.kind != "f" or stored.name == floats.dtype:
        return field
    encoding = column.encoding.replace(stored.name, floats.dtype)
    return replace(field, column=replace(column, encoding=encoding), cast=floats.dtype)


def cast_floats(values: mds.Values, dtype: str) -> mds.Values:
    """Cast floating-point scalars or arrays as Spark does: values out of range become infinite.

    Parameters
    ----------
    values : numpy.ndarray or pyarrow.Array
        The values; null stays null.
    dtype : {"float32", "float64"}
        The dtype.
    """
    to = np.dtype(dtype)
    if not isinstance(values, np.ndarray):
        return values.cast(mds.list_type(pa.from_numpy_dtype(to), mds.depth_of(values.type)))
    with np.errstate(over="ignore"):
        return _cast_rows(values, to)


def _cast_rows(values: Any, dtype: np.dtype[Any]) -> Any:
    """Cast an array, or the arrays inside objects and lists."""
    if isinstance(values, list):  # a ragged nested array
        return [_cast_rows(value, dtype) for value in values]
    if isinstance(values, np.ndarray) and values.dtype == object:
        return objects([_cast_rows(value, dtype) for value in values])
    return None if values is None else values.astype(dtype)


def _decimals(field: DecodedField, dtype: str) -> DecodedField:
    """Return a field that converts decimals, or arrays of decimals, to a dtype."""
    column, decode = field.column, field.decode
    is_text = column.encoding == "str_decimal" and column.spark_type is None
    target = replace(column, encoding=dtype, spark_type=None)
    if pa.types.is_list(column.arrow_type):
        # Whether arrays have the same length is known only within a batch.
        origin = replace(column.origin, lengths="unknown")
        target = replace(target, encoding=f"ndarray:{dtype}", origin=origin)

    def to_floats(values: mds.Values) -> mds.Values:
        found = mds.as_arrow(values if decode is None else decode(values))
        if is_text:
            return found.cast(pa.float64()).cast(target.arrow_type)
        floats = mds.decimals_to_floats(found, target.arrow_type)
        return mds.with_nan_elements(floats) if target.is_array else floats

    return DecodedField(target, to_floats)


def schema_with_floats(unischema: Unischema, floats: Floats) -> Unischema:
    """Return the schema of columns converted by `with_floats`."""

    def converted(field: UnischemaField) -> UnischemaField:
        if field.numpy_dtype is Decimal:
            if not mds.become_floats(floats.decimals):
                return field
            return field._replace(numpy_dtype=np.dtype(floats.decimals).type, codec=None)
        if floats.dtype is None or np.dtype(field.numpy_dtype).kind != "f":
            return field
        return field._replace(numpy_dtype=np.dtype(floats.dtype).type)

    return Unischema(unischema._name, [converted(field) for field in unischema.fields.values()])
