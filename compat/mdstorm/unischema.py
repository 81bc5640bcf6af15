"""`Unischema`: the fields of a dataset as NumPy, Spark and a person see them."""

from __future__ import annotations

from mdstorm._schema.unischema import (
    Unischema,
    UnischemaField,
    dict_to_spark_row,
    insert_explicit_nulls,
    match_unischema_fields,
)

__all__ = [
    "Unischema",
    "UnischemaField",
    "dict_to_spark_row",
    "insert_explicit_nulls",
    "match_unischema_fields",
]
