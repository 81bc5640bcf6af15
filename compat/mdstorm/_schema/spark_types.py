"""The Spark types of fields, which are known without pyspark."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdstorm._schema.fields import UnischemaField
from mdstorm.errors import InvalidArgumentError
from mdstorm_backend.base import require
from mdstorm_backend.format import SparkType

#: Spark types without parameters, as class name → JSON.
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
#: Spark types of scalars without a codec, by NumPy type.
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
    """A Spark type, kept as Spark's JSON so that pyspark is not needed.

    Attributes
    ----------
    json : str or dict
        The result of ``DataType.jsonValue()``: ``"long"``, ``"decimal(10,2)"``, …
    """

    json: SparkType

    def __str__(self) -> str:
        return f"{class_name(self)}()"

    def load(self) -> Any:
        """Return the `pyspark.sql.types.DataType`, which requires pyspark."""
        require("pyspark")
        from pyspark.sql.types import StructField

        # This is the only public pyspark function that can parse any type.
        field = {"name": "x", "type": self.json, "nullable": True, "metadata": {}}
        return StructField.fromJson(field).dataType


def is_simple(json: SparkType) -> bool:
    """Whether a type is a decimal or has no parameters, unlike arrays, structs and maps."""
    return isinstance(json, str) and (json in _CLASSES or _DECIMAL.fullmatch(json) is not None)


def class_name(spark_type: Any) -> str:
    """Return the class name of a Spark type, given an instance, a class or a `NamedSparkType`."""
    if isinstance(spark_type, NamedSparkType):
        if isinstance(spark_type.json, dict):
            return f"{str(spark_type.json['type']).capitalize()}Type"
        if _DECIMAL.fullmatch(spark_type.json):
            return "DecimalType"
        return _CLASSES[spark_type.json]
    return str((spark_type if isinstance(spark_type, type) else type(spark_type)).__name__)


def spark_type_json(spark_type: Any) -> SparkType:
    """Return Spark's JSON for a type in any form that `class_name` accepts."""
    if isinstance(spark_type, NamedSparkType):
        return spark_type.json
    name = class_name(spark_type)
    if name in ATOMIC_TYPES:
        return ATOMIC_TYPES[name]
    found: SparkType = (spark_type() if isinstance(spark_type, type) else spark_type).jsonValue()
    return found


def numpy_to_spark_mapping() -> dict[Any, Any]:
    """Return the Spark types for NumPy types of scalars without a codec; requires pyspark."""
    return {dtype: NamedSparkType(name).load() for dtype, name in _SPARK_TYPES.items()}


def spark_type(field: UnischemaField) -> Any:
    """Return a field's Spark type as a `pyspark.sql.types.DataType`.

    Raises
    ------
    InvalidArgumentError
        If the field has no codec and Spark cannot store its type directly; also a ValueError.
    """
    if field.codec is not None:
        return field.codec.spark_dtype()
    if field.shape:
        raise InvalidArgumentError(
            f"An instance of non-scalar UnischemaField {field.name!r} has codec set to None. Don't "
            "know how to guess a Spark type for it; give it NdarrayCodec() or a custom codec"
        )
    dtype = field.numpy_dtype
    named = spark_type_of_numpy(dtype)
    if named is None:
        raise InvalidArgumentError(
            f"Was not able to map type {dtype} to a spark type. Give field {field.name!r} a "
            "ScalarCodec with the Spark type to store it as"
        )
    return named.load()


def spark_type_of_numpy(dtype: Any) -> NamedSparkType | None:
    """Return the Spark type for a NumPy type or dtype of scalars; None if there is none."""
    name = _SPARK_TYPES.get(dtype.type if isinstance(dtype, np.dtype) else dtype)
    return None if name is None else NamedSparkType(name)
