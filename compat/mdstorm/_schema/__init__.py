"""Schema fields, their Spark types, and the inference of fields from columns."""

from __future__ import annotations

from mdstorm._schema.fields import UnischemaField, check_field, encoded
from mdstorm._schema.inference import (
    fields_of_arrow,
    fields_of_columns,
    is_left_out,
    numpy_type_of,
)
from mdstorm._schema.spark_types import (
    ATOMIC_TYPES,
    NamedSparkType,
    class_name,
    is_simple,
    numpy_to_spark_mapping,
    spark_type,
    spark_type_json,
    spark_type_of_numpy,
)

__all__ = [
    "ATOMIC_TYPES",
    "NamedSparkType",
    "UnischemaField",
    "check_field",
    "class_name",
    "encoded",
    "fields_of_arrow",
    "fields_of_columns",
    "is_left_out",
    "is_simple",
    "numpy_to_spark_mapping",
    "numpy_type_of",
    "spark_type",
    "spark_type_json",
    "spark_type_of_numpy",
]
