"""The Spark type of a field's column, and the conversion of its values."""

from __future__ import annotations

from typing import Any

import numpy as np

from mdstorm._schema.spark_type_names import NamedSparkType
from mdstorm._schema.unischema_field import UnischemaField
from mdstorm.errors import EncodingTypeError, InvalidArgumentError

#: Spark types of scalars without a codec.
_SPARK_TYPES: dict[Any, str] = {
    np.int8: "byte",
    np.uint8: "short",
    np.int16: "short",
    np.uint16: "integer",
    np.int32: "integer",
    np.int64: "long",
    np.float32: "float",
    np.float64: "double",
    np.str_: "string",
    np.bytes_: "string",
    np.bool_: "boolean",
}


def numpy_to_spark_mapping() -> dict[Any, Any]:
    """Return the Spark types of scalars without a codec, by NumPy type; it needs pyspark."""
    return {dtype: NamedSparkType(name).load() for dtype, name in _SPARK_TYPES.items()}


def spark_type(field: UnischemaField) -> Any:
    """Return the Spark type of a field's column, a `pyspark.sql.types.DataType`.

    Raises
    ------
    InvalidArgumentError
        If it has no codec and is not of a type that Spark stores by itself; also ValueError.
    """
    if field.codec is not None:
        return field.codec.spark_dtype()
    if field.shape:
        raise InvalidArgumentError(
            f"An instance of non-scalar UnischemaField {field.name!r} has codec set to None. Don't "
            "know how to guess a Spark type for it; give it NdarrayCodec() or a codec of your own"
        )
    dtype = field.numpy_dtype
    name = _SPARK_TYPES.get(dtype.type if isinstance(dtype, np.dtype) else dtype)
    if name is None:
        raise InvalidArgumentError(
            f"Was not able to map type {dtype} to a spark type. Give field {field.name!r} a "
            "ScalarCodec with the Spark type to store it as"
        )
    return NamedSparkType(name).load()


def encoded(field: UnischemaField, value: Any) -> Any:
    """Return a value of a field as a Spark DataFrame holds it.

    Raises
    ------
    EncodingError
        If it does not fit the field; also ValueError.
    """
    if value is None:
        if not field.nullable:
            raise EncodingTypeError(
                f'Field {field.name!r} is not "nullable", but got a None value', column=field.name
            )
        return None
    if field.codec is not None:
        return field.codec.encode(field, value)
    return value.item() if isinstance(value, np.generic) else value
