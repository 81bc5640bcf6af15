"""Represent Spark types by name, where pyspark may not be installed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

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
