"""Declare batches to TensorFlow: dtypes and shapes of columns, namedtuples of them."""

from __future__ import annotations

import collections
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import tensorflow as tf

from mdstorm_backend.errors import InvalidArgumentError, UnsupportedTypeError
from mdstorm_backend.format.schema import Column
from mdstorm_backend.format.values.nested_lists import depth_of, element_type
from mdstorm_backend.read.decoded_images import ImageDecoder


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
        Whether values are arrays of varying length, or lists of them.
    dimensions : int
        Dimensions of ragged values.
    image : Column or None
        The stored column, if it holds images: those of a batch have one shape, which only they say.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...] = ()
    ragged: bool = False
    dimensions: int = 1
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
            rank = self.dimensions
            return tf.RaggedTensorSpec(
                (None,) * (rank + 1), dtype, ragged_rank=rank, row_splits_dtype=tf.int64
            )
        return tf.TensorSpec((None, *self.shape), dtype)


def spec_of_column(column: Column, images: ImageDecoder | None = None) -> ColumnSpec:
    """Return how a stored column arrives, which `images` may decode.

    Raises
    ------
    UnsupportedTypeError
        If TensorFlow has no type for it.
    """
    if images is not None and column.name in images.names:
        return ColumnSpec(column.name, "uint8", images.shape)
    encoding, type_ = column.parsed_encoding, column.arrow_type
    dtype, depth = encoding.tensorflow_dtype(element_type(type_)), depth_of(type_)
    if dtype is None:
        raise _no_counterpart(column)
    if encoding.is_image:
        return ColumnSpec(column.name, dtype, image=column)
    if not depth:
        return ColumnSpec(column.name, dtype)
    if column.value_shape:
        return ColumnSpec(column.name, dtype, column.value_shape)
    if column.origin.lengths == "unknown":
        return ColumnSpec(column.name, dtype, (None,) * depth)
    return ColumnSpec(column.name, dtype, ragged=True, dimensions=depth)


def _no_counterpart(column: Column) -> UnsupportedTypeError:
    if column.is_array:
        found = "arrays that each have a dtype of their own"
    elif column.spark_type is not None:
        found = f"type {column.arrow_type}"
    else:
        found = f"encoding {column.encoding!r}"
    return UnsupportedTypeError(
        f"column {column.name!r} of {found} has no counterpart in TensorFlow. Leave it out with "
        "schema_fields=[…], or turn it into plain columns before converting",
        columns={column.name: found},
    )


def needs_value(column: Column) -> bool:
    """Whether nulls would become an arbitrary value, as all but those of floats."""
    return not column.is_floating or (column.is_array and column.null_count > 0)


@lru_cache(maxsize=256)
def row_type(type_name: str, names: tuple[str, ...]) -> Any:
    """Return the namedtuple type of some columns; equal columns share one type.

    Raises
    ------
    InvalidArgumentError
        If a column name is no valid field name, in Python's words.
    """
    try:
        base = collections.namedtuple(type_name, names)  # type: ignore[misc]
    except ValueError as error:
        raise InvalidArgumentError(
            f"{error}: batches are namedtuples here, so column names must be valid names of "
            "fields in Python. Rename them before converting, df.toDF(…), or read others of "
            f"{list(names)} with schema_fields"
        ) from error
    return type(type_name, (base,), {"__slots__": (), "_from_compatible_tensor_list": made_of})


def made_of(types: Any, tensors: Sequence[Any]) -> Any:
    """Return the row of some tensors, where `types` is the row of their types.

    TensorFlow's iterators ask what describes their elements for ``_from_compatible_tensor_list``
    first. Otherwise they walk through the structure, which takes longer than getting the tensors.

    Raises
    ------
    AttributeError
        If not all are plain tensors; then TensorFlow does walk through it.
    """
    if any(type(one) is not tf.TensorSpec for one in types):
        raise AttributeError(f"{type(types).__name__} has parts that are made of several tensors")
    return types._make(tensors)
