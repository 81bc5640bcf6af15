"""Declare the fields of a schema to TensorFlow."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np

from mdstorm._transforms.declared_fields import declared_dtype
from mdstorm.errors import InvalidArgumentError
from mdstorm.unischema import Unischema
from mdstorm_backend.base import warn_user
from mdstorm_backend.loaders.tf import ColumnSpec

#: NumPy types that arrive as something else.
_DTYPES = {
    np.str_: "string",
    np.bytes_: "string",
    decimal.Decimal: "string",
    np.datetime64: "int64",
    datetime.date: "int64",
    np.timedelta64: "int64",
    np.uint16: "int32",
    np.uint32: "int64",
    np.bool_: "bool",
}
#: Kinds of NumPy types that TensorFlow has by the same name.
_SAME_KINDS = "iuf"


def declared_spec(name: str, numpy_type: Any, shape: tuple[int | None, ...]) -> ColumnSpec:
    """Return how a column of a declared NumPy type arrives.

    Raises
    ------
    InvalidArgumentError
        If TensorFlow has no type for it; also ValueError.
    """
    if numpy_type in _DTYPES:
        return ColumnSpec(name, _DTYPES[numpy_type], tuple(shape))
    dtype = declared_dtype(numpy_type)
    if dtype.type in _DTYPES:
        return ColumnSpec(name, _DTYPES[dtype.type], tuple(shape))
    if dtype.kind not in _SAME_KINDS or dtype.itemsize > 8:
        raise InvalidArgumentError(
            f"Unknown mapping of numpy {numpy_type!r} to tensorflow dtype: declare column {name!r} "
            "in edit_fields with a NumPy type of numbers or text, or leave it out with "
            "schema_fields"
        )
    return ColumnSpec(name, dtype.name, tuple(shape))


def specs_of_schema(schema: Unischema) -> list[ColumnSpec]:
    """Return how the fields of a schema arrive; for text with Petastorm's warning.

    Raises
    ------
    InvalidArgumentError
        If TensorFlow has no type for one; also ValueError.
    """
    for field in schema.fields.values():
        if field.numpy_dtype is np.str_:
            warn_user(
                "Tensorflow will convert all unicode strings back to bytes type. You may need to "
                f"decode values: field {field.name!r}",
                UnicodeWarning,
            )
    return [declared_spec(f.name, f.numpy_dtype, f.shape) for f in schema.fields.values()]
