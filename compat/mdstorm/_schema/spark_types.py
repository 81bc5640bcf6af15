"""Spark's types by name, where pyspark may not be installed, and those of fields."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdstorm._schema.unischema_field import UnischemaField
from mdstorm.errors import EncodingTypeError, InvalidArgumentError
from mdstorm_backend.base import require
from mdstorm_backend.format import SparkType

#: Types without parameters: Spark's name for the class → its JSON.
ATOMIC_TYPES = {
    "BinaryType": "binary",
    "BooleanType": "boolean",
    "ByteType": "byte",
    "DateType": "date",
    "DoubleType": "double",
    "FloatType": "float",
    "IntegerType": "integer",
    "LongType": "long",
    "NullType": "void",
    "ShortType": "short",
    "StringType": "string",
    "TimestampNTZType": "timestamp_ntz",
    "TimestampType": "timestamp",
}
_CLASSES = {json: name for name, json in ATOMIC_TYPES.items()}
_DECIMAL = re.compile(r"decimal\(\d+,-?\d+\)")

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


@dataclass(frozen=True)
class NamedSparkType:
    """A Spark type that is known by Spark's JSON for it, with no need of Spark.

    Attributes
    ----------
    json : str or dict
        What ``DataType.jsonValue()`` returns: ``"long"``, ``"decimal(10,2)"``, …
    """

    json: SparkType

    def __str__(self) -> str:
        return f"{class_name(self)}()"

    def load(self) -> Any:
        """Return the `pyspark.sql.types.DataType`; it needs pyspark."""
        require("pyspark")
        from pyspark.sql.types import StructField

        # The one public function of pyspark that parses any type.
        field = {"name": "x", "type": self.json, "nullable": True, "metadata": {}}
        return StructField.fromJson(field).dataType


def is_simple(json: SparkType) -> bool:
    """Whether a type is a decimal or one without parameters, which pickles of Petastorm hold."""
    return isinstance(json, str) and (json in _CLASSES or _DECIMAL.fullmatch(json) is not None)


def class_name(spark_type: Any) -> str:
    """Name of the class of a Spark type: an instance of it, the class itself, or a named type."""
    if isinstance(spark_type, NamedSparkType):
        if isinstance(spark_type.json, dict):
            return f"{str(spark_type.json['type']).capitalize()}Type"
        if _DECIMAL.fullmatch(spark_type.json):
            return "DecimalType"
        return _CLASSES[spark_type.json]
    return str((spark_type if isinstance(spark_type, type) else type(spark_type)).__name__)


def spark_type_json(spark_type: Any) -> SparkType:
    """Return Spark's JSON for a type in any of the forms that `class_name` takes."""
    if isinstance(spark_type, NamedSparkType):
        return spark_type.json
    name = class_name(spark_type)
    if name in ATOMIC_TYPES:
        return ATOMIC_TYPES[name]
    found: SparkType = (spark_type() if isinstance(spark_type, type) else spark_type).jsonValue()
    return found


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
                f'Field {field.name!r} is not "nullable", but got a None value: give it a value, '
                "or declare it nullable",
                column=field.name,
            )
        return None
    if field.codec is not None:
        return field.codec.encode(field, value)
    return value.item() if isinstance(value, np.generic) else value
