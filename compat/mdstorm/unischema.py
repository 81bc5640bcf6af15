"""Schemas of fields: the mirror of ``petastorm.unischema``."""

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
