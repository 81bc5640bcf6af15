"""Transforms of rows: the mirror of ``petastorm.transform``."""

from __future__ import annotations

from mdstorm._transforms.transform_spec import (
    EditedField,
    TransformSpec,
    edit_field,
    transform_schema,
)

__all__ = [
    "EditedField",
    "TransformSpec",
    "edit_field",
    "transform_schema",
]
