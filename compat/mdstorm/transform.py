"""Transforms of rows: the mirror of ``petastorm.transform``."""

from __future__ import annotations

from mdstorm._petastorm_names import other_names
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

__getattr__ = other_names(__name__)
