"""How columns arrive in TensorFlow: their dtypes and shapes, which it wants to know beforehand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import tensorflow as tf

from mdstorm_backend.base.errors import UnsupportedTypeError
from mdstorm_backend.format.encodings import IMAGE_LISTS, IMAGES, parse_encoding
from mdstorm_backend.format.schema import Column
from mdstorm_backend.loaders.nulls import null_error

__all__ = ["ColumnSpec", "check_nulls", "spec_of_column"]

#: What Petastorm's TensorFlow adapter promotes.
_PROMOTED = {"uint16": "int32", "uint32": "int64"}


@dataclass(frozen=True)
class ColumnSpec:
    """How one column arrives in TensorFlow.

    Attributes
    ----------
    name : str
        Name of the column.
    dtype : str
        Name of the TensorFlow dtype.
    shape : tuple of int or None
        Shape of one value.
    ragged : bool
        Whether values are one-dimensional arrays of varying length.
    image : Column or None
        The stored column, if it holds images: those of a batch have one shape, which only they say.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...] = ()
    ragged: bool = False
    image: Column | None = None

    @property
    def is_fixed(self) -> bool:
        """Whether values have one shape in the whole dataset."""
        return not self.ragged and None not in self.shape and self.image is None

    @property
    def signature(self) -> Any:
        """The ``TypeSpec`` of a batch of the column."""
        dtype = tf.as_dtype(self.dtype)
        if self.image is not None:
            return tf.TensorSpec(None, dtype)
        if self.ragged:
            return tf.RaggedTensorSpec(
                (None, None), dtype, ragged_rank=1, row_splits_dtype=tf.int64
            )
        return tf.TensorSpec((None, *self.shape), dtype)


def spec_of_column(column: Column) -> ColumnSpec:
    """Return how a stored column arrives.

    Raises
    ------
    UnsupportedTypeError
        If TensorFlow has no type for it.
    """
    kind = parse_encoding(column.encoding).kind
    if kind in IMAGES:
        return ColumnSpec(column.name, "uint8", image=column)
    if kind == "pkl" or kind in IMAGE_LISTS:
        raise _no_counterpart(column, f"encoding {column.encoding!r}")
    type_ = column.arrow_type
    if pa.types.is_list(type_):
        if pa.types.is_null(type_.value_type):
            raise _no_counterpart(column, "arrays that each have a dtype of their own")
        dtype = _dtype_name(column, type_.value_type)
        if column.length is not None:
            return ColumnSpec(column.name, dtype, (column.length,))
        if column.has_shape:
            return ColumnSpec(column.name, dtype, parse_encoding(column.encoding).shape or ())
        if column.origin.lengths == "unknown":
            return ColumnSpec(column.name, dtype, (None,))
        return ColumnSpec(column.name, dtype, ragged=True)
    return ColumnSpec(column.name, _dtype_name(column, type_))


def _dtype_name(column: Column, type_: pa.DataType) -> str:
    if pa.types.is_string(type_) or pa.types.is_binary(type_) or pa.types.is_decimal(type_):
        return "string"
    if pa.types.is_boolean(type_):
        return "bool"
    if pa.types.is_temporal(type_):
        return "int64"
    if pa.types.is_integer(type_) or pa.types.is_floating(type_):
        name = str(np.dtype(type_.to_pandas_dtype()).name)
        return _PROMOTED.get(name, name)
    raise _no_counterpart(column, f"type {type_}")


def _no_counterpart(column: Column, found: str) -> UnsupportedTypeError:
    return UnsupportedTypeError(
        f"column {column.name!r} of {found} has no counterpart in TensorFlow. Leave it out "
        "with schema_fields=[…], or make plain columns of it before converting",
        columns={column.name: found},
    )


def check_nulls(column: Column, count: int) -> None:
    """Refuse nulls that would become an arbitrary value: all but those of floats.

    Raises
    ------
    NullValueError
        If `count` nulls of the column have no value.
    """
    if count and (not column.is_floating or (column.is_array and column.null_count)):
        raise null_error(column.name, count, "TensorFlow")
