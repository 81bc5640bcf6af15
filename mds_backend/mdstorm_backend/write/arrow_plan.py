"""How the columns of Arrow data are stored: the type plan of `write_batch`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from mdstorm_backend.base.errors import (
    InvalidArgumentError,
    MissingColumnError,
    UnsupportedTypeError,
)
from mdstorm_backend.format.encodings import ARRAY_DTYPES, Encoding, parse_encoding
from mdstorm_backend.format.plain_arrow import plain_type
from mdstorm_backend.format.schema import Column, Schema
from mdstorm_backend.format.spark_types import SparkType
from mdstorm_backend.format.type_plan import plan_types

__all__ = ["check_columns", "fitted_column", "plan_batch"]

_SPARK_NAMES: dict[pa.DataType, str] = {
    pa.bool_(): "boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.binary(): "binary",
    pa.date32(): "date",
    pa.timestamp("us", tz="UTC"): "timestamp",
    pa.timestamp("us"): "timestamp_ntz",
    pa.duration("us"): "interval day to second",
}

_FLOAT = re.compile(r"float\d+")


def check_columns(columns: Mapping[str, str]) -> None:
    """Check the encodings that a user gives.

    Raises
    ------
    UnsupportedTypeError
        If there is no column, or the format has no such encoding; names all of them.
    """
    if not isinstance(columns, Mapping) or not columns:
        raise UnsupportedTypeError(
            f"columns must be a dict from column to encoding with at least one entry, found "
            f"{columns!r}"
        )
    refused = {name: text for name, text in columns.items() if not _is_encoding(name, text)}
    if refused:
        raise UnsupportedTypeError(
            f"{refused} is unsupported: names of columns are texts, and encodings are bytes, str, "
            "int, int8 … int64, uint8 … uint64, float16 … float64, str_int, str_float, "
            "str_decimal, json, pkl, pil, jpeg, png, jpeg_array, list[pil], list[jpeg], list[png], "
            "ndarray, ndarray:<dtype> and ndarray:<dtype>:<shape>",
            columns={str(name): str(text) for name, text in refused.items()},
        )


def _is_encoding(name: object, text: object) -> bool:
    if not (isinstance(name, str) and isinstance(text, str)):
        return False
    try:
        return not parse_encoding(text).is_opaque
    except NotImplementedError:
        return False


def plan_batch(
    schema: pa.Schema, columns: Mapping[str, str] | None, dtype: str | None = None
) -> Schema:
    """Plan how Arrow data is stored.

    Parameters
    ----------
    schema : pyarrow.Schema
        That of the data.
    columns : dict of str to str, optional
        The encodings that the user gives; columns not named are left out. Without it every column
        gets the encoding that keeps its type.
    dtype : {"float32", "float64", None}
        Without `columns`: what floating-point scalars and the elements of arrays become; None keeps
        them.

    Raises
    ------
    UnsupportedTypeError
        If columns cannot be stored, or not in the encoding that is given; names all of them.
    MissingColumnError
        If the data lack one of `columns`.
    """
    fields = {field.name: field for field in schema}
    missing = [name for name in columns or () if name not in fields]
    if missing:
        raise MissingColumnError(
            f"the data have no column {missing[0]!r}: they have {list(fields)}. Leave it out of "
            "columns, or add it to the data",
            column=missing[0],
        )
    if columns is None:
        return _default_plan(schema, dtype)
    repeated = [name for name in columns if schema.names.count(name) > 1]
    if repeated:
        raise InvalidArgumentError(
            f"the data have several columns {repeated[0]!r}: give each a name of its own"
        )
    planned = {n: fitted_column(f, columns[n]) for n, f in fields.items() if n in columns}
    refused = {n: f"{fields[n].type} as {columns[n]!r}" for n, c in planned.items() if c is None}
    if refused:
        raise UnsupportedTypeError(
            "; ".join(f"column {name!r} cannot be stored: {how}" for name, how in refused.items())
            + ". Convert the column before, or choose an encoding for its type",
            columns=refused,
        )
    return Schema(tuple(column for column in planned.values() if column is not None))


def _default_plan(schema: pa.Schema, dtype: str | None) -> Schema:
    fields = [
        {"name": f.name, "type": _spark_type(f.type) or str(f.type), "nullable": f.nullable}
        for f in schema
    ]
    beyond_spark = {
        f.name: _FLOAT.sub(dtype, text) if dtype else text
        for f in schema
        if (text := _beyond_spark(f.type))
    }
    plan = plan_types(
        [{**f, "type": "long"} if f["name"] in beyond_spark else f for f in fields], dtype
    )
    return Schema(
        tuple(
            replace(column, encoding=beyond_spark[column.name], spark_type=None)
            if column.name in beyond_spark
            else column
            for column in plan
        )
    )


def _beyond_spark(type_: pa.DataType) -> str | None:
    """Encoding of what Spark does not have: unsigned numbers, floats of 16 bits, tensors."""
    if isinstance(type_, pa.FixedShapeTensorType):
        return _tensor_encoding(type_)
    type_ = plain_type(type_)
    if pa.types.is_list(type_):
        element = _beyond_spark(type_.value_type)
        return element and f"ndarray:{element}"
    if pa.types.is_unsigned_integer(type_):
        return str(type_)
    return "float16" if pa.types.is_float16(type_) else None


def _tensor_encoding(type_: pa.FixedShapeTensorType) -> str | None:
    name = _numpy_name(type_.value_type)
    if name not in ARRAY_DTYPES or not type_.shape or 0 in type_.shape or _is_permuted(type_):
        return None
    return f"ndarray:{name}:{','.join(map(str, type_.shape))}"


def _is_permuted(type_: pa.FixedShapeTensorType) -> bool:
    """Whether the dimensions of tensors are stored in another order than they are meant."""
    order = list(type_.permutation or ())
    return order != sorted(order)


def _spark_type(type_: pa.DataType) -> SparkType | None:
    """Spark type of the same values, or None."""
    if isinstance(type_, pa.FixedShapeTensorType):
        return None
    type_ = plain_type(type_)
    if type_ in _SPARK_NAMES:
        return _SPARK_NAMES[type_]
    if pa.types.is_decimal128(type_):
        return f"decimal({type_.precision},{type_.scale})"
    if pa.types.is_list(type_):
        element = _spark_type(type_.value_type)
        return element and {"type": "array", "elementType": element, "containsNull": True}
    if pa.types.is_map(type_):
        key, value = _spark_type(type_.key_type), _spark_type(type_.item_type)
        if key is None or value is None:
            return None
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
    if pa.types.is_struct(type_):
        fields = [{"name": f.name, "type": _spark_type(f.type), "nullable": True} for f in type_]
        return (
            {"type": "struct", "fields": fields}
            if all(field["type"] is not None for field in fields)
            else None
        )
    return None


def fitted_column(field: pa.Field, text: str, spark_type: SparkType | None = None) -> Column | None:
    """Plan a column in the encoding `text`; None if its values have no form in it.

    The Spark type is recorded where it tells more than the encoding, and readers may rely on it:
    where the encoding is the one that the type has by itself.
    """
    type_, encoding = plain_type(field.type), parse_encoding(text)
    spark_type = spark_type or _spark_type(type_)
    column = Column(field.name, text, nullable=field.nullable)
    is_flat = encoding.shape is None or len(encoding.shape) < 2
    if spark_type is not None and is_flat and _is_own_encoding(spark_type, encoding):
        return replace(column, spark_type=spark_type)
    return column if _fits(type_, encoding) else None


def _is_own_encoding(spark_type: SparkType, encoding: Encoding) -> bool:
    try:
        (own,) = plan_types([{"name": "_", "type": spark_type}], None)
    except UnsupportedTypeError:
        return False
    wanted = parse_encoding(own.encoding)
    return (wanted.kind, wanted.dtype) == (encoding.kind, encoding.dtype)


def _fits(type_: pa.DataType, encoding: Encoding) -> bool:
    types, kind = pa.types, encoding.kind
    if types.is_null(type_):
        return encoding.dtype is not None and kind != "ndarray"
    if types.is_binary(type_) or kind == "pkl":
        return encoding.size is None
    if kind == "ndarray":
        numbers = types.is_list(type_) and str(_numpy_name(type_.value_type)) in ARRAY_DTYPES
        return numbers or (_is_bool_list(type_) and encoding.dtype is not None)
    if encoding.dtype is not None:
        return _is_number(type_) or types.is_decimal(type_)
    if kind == "json":
        return _spark_type(type_) is not None or types.is_unsigned_integer(type_)
    if kind == "str_int":
        return bool(types.is_integer(type_) or types.is_boolean(type_))
    if kind == "str":
        return bool(types.is_temporal(type_) or types.is_boolean(type_))
    if kind == "str_float":
        return bool(types.is_float64(type_))
    if kind == "str_decimal":
        return bool(types.is_decimal(type_) or types.is_integer(type_))
    if kind == "jpeg_array":
        return bool(types.is_list(type_) and types.is_binary(type_.value_type))
    return False


def _is_number(type_: pa.DataType) -> bool:
    types = pa.types
    return bool(types.is_integer(type_) or types.is_floating(type_) or types.is_boolean(type_))


def _is_bool_list(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) and pa.types.is_boolean(type_.value_type))


def _numpy_name(type_: pa.DataType) -> str | None:
    return {"halffloat": "float16", "float": "float32", "double": "float64"}.get(
        str(type_), str(type_)
    )
