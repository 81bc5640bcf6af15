"""Schemas of fields: the mirror of ``petastorm.unischema``."""

from __future__ import annotations

from mdstorm._petastorm_names import other_names
from mdstorm._schema.inferred_fields import numpy_type_of
from mdstorm._schema.spark_fields import numpy_to_spark_mapping, spark_type
from mdstorm._schema.unischema import (
    Unischema,
    dict_to_spark_row,
    insert_explicit_nulls,
    match_unischema_fields,
)
from mdstorm._schema.unischema_field import UnischemaField

__all__ = [
    "Unischema",
    "UnischemaField",
    "dict_to_spark_row",
    "insert_explicit_nulls",
    "match_unischema_fields",
]

__getattr__ = other_names(__name__)

#: Private in Petastorm, and used by programs all the same.
_field_spark_dtype = spark_type
_numpy_and_codec_from_arrow_type = numpy_type_of
_numpy_to_spark_mapping = numpy_to_spark_mapping
