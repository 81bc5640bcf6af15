"""Spark SQL types, in Spark's own JSON, and the matching Arrow types.

Datasets keep the Spark type of a column in this form, so they can be read without Spark.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

import pyarrow as pa

from mdstorm_backend.format.values.plain_arrow import plain_type

#: ``"long"``, ``"decimal(10,2)"``, ``{"type": "array", "elementType": …}``, …
SparkType: TypeAlias = str | dict[str, Any]

_ATOMIC = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_SPARK_NAMES = {
    **{type_: name for name, type_ in _ATOMIC.items()},
    pa.duration("us"): "interval day to second",
}
_DECIMAL = re.compile(r"decimal\((\d+),\s*(-?\d+)\)")
_TEXT = re.compile(r"(var)?char\(\d+\)|string collate \S+")
_DAY_TIME_INTERVAL = re.compile(r"interval (day|hour|minute|second)( to (hour|minute|second))?")


def is_vector(spark_type: SparkType) -> bool:
    """Whether the type is an ``ml`` or ``mllib`` vector."""
    return (
        isinstance(spark_type, dict)
        and spark_type["type"] == "udt"
        and str(spark_type.get("pyClass", spark_type.get("class"))).endswith("VectorUDT")
    )


def simple_name(spark_type: SparkType) -> str:
    """Name of the type for messages, as Spark abbreviates it."""
    if isinstance(spark_type, str):
        return spark_type
    kind = str(spark_type["type"])
    if kind == "array":
        return f"array<{simple_name(spark_type['elementType'])}>"
    if kind == "map":
        return f"map<{simple_name(spark_type['keyType'])},{simple_name(spark_type['valueType'])}>"
    if kind == "struct":
        fields = (f"{f['name']}:{simple_name(f['type'])}" for f in spark_type["fields"])
        return f"struct<{','.join(fields)}>"
    return "vector" if is_vector(spark_type) else str(spark_type.get("class") or kind)


def is_decimal(spark_type: object) -> bool:
    """Whether it is the Spark type of decimals, of any precision."""
    return isinstance(spark_type, str) and _DECIMAL.fullmatch(spark_type) is not None


def arrow_type(spark_type: SparkType) -> pa.DataType:
    """Return the Arrow type that holds the values of a Spark type.

    Vectors are lists of float64, day-time intervals int64 microseconds.

    Raises
    ------
    KeyError
        If the type has no counterpart, as ``void``, ``variant`` and year-month intervals.
    """
    if isinstance(spark_type, str):
        if decimal := _DECIMAL.fullmatch(spark_type):
            return pa.decimal128(int(decimal[1]), int(decimal[2]))
        if _TEXT.fullmatch(spark_type):
            return pa.string()
        if _DAY_TIME_INTERVAL.fullmatch(spark_type):
            return pa.duration("us")
        return _ATOMIC[spark_type]
    kind = spark_type["type"]
    if kind == "array":
        return pa.list_(arrow_type(spark_type["elementType"]))
    if kind == "map":
        return pa.map_(arrow_type(spark_type["keyType"]), arrow_type(spark_type["valueType"]))
    if kind == "struct":
        return pa.struct([(f["name"], arrow_type(f["type"])) for f in spark_type["fields"]])
    if is_vector(spark_type):
        return pa.list_(pa.float64())
    raise KeyError(simple_name(spark_type))


def spark_type_of(type_: pa.DataType) -> SparkType | None:
    """Spark type of the same values, or None."""
    if isinstance(type_, pa.FixedShapeTensorType):
        return None
    type_ = plain_type(type_)
    if type_ in _SPARK_NAMES:
        return _SPARK_NAMES[type_]
    if pa.types.is_decimal128(type_):
        return f"decimal({type_.precision},{type_.scale})"
    if pa.types.is_list(type_):
        element = spark_type_of(type_.value_type)
        return element and {"type": "array", "elementType": element, "containsNull": True}
    if pa.types.is_map(type_):
        key, value = spark_type_of(type_.key_type), spark_type_of(type_.item_type)
        if key is None or value is None:
            return None
        return {"type": "map", "keyType": key, "valueType": value, "valueContainsNull": True}
    if pa.types.is_struct(type_):
        fields = [{"name": f.name, "type": spark_type_of(f.type), "nullable": True} for f in type_]
        return (
            {"type": "struct", "fields": fields}
            if all(field["type"] is not None for field in fields)
            else None
        )
    return None
