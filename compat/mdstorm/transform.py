"""`TransformSpec`: a user's function on the rows, and what it does to the columns."""

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
