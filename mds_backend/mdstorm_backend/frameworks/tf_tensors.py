"""Batches as what TensorFlow takes in: NumPy arrays of declared dtypes, and ragged tensors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import tensorflow as tf

from mdstorm_backend.batch import Values
from mdstorm_backend.errors import UnsupportedTypeError
from mdstorm_backend.frameworks.formats import scalars_to_numpy
from mdstorm_backend.frameworks.nulls import null_error
from mdstorm_backend.frameworks.timestamps import nanoseconds
from mdstorm_backend.schema import Column

__all__ = ["ColumnSpec", "check_nulls", "spec_of_column", "to_tf"]

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
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...] = ()
    ragged: bool = False

    @property
    def signature(self) -> Any:
        """The ``TypeSpec`` of a batch of the column."""
        dtype = tf.as_dtype(self.dtype)
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
    type_ = column.arrow_type
    if pa.types.is_list(type_):
        dtype = _dtype_name(column, type_.value_type)
        if column.length is not None:
            return ColumnSpec(column.name, dtype, (column.length,))
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
    raise UnsupportedTypeError(
        f"column {column.name!r} of type {type_} has no counterpart in TensorFlow. Leave it out "
        "with schema_fields=[…], or make plain columns of it before converting",
        columns={column.name: f"type {type_}"},
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


def to_tf(values: Values, spec: ColumnSpec) -> Any:
    """Return one column of a batch as `spec` says.

    Dates and timestamps become int64 nanoseconds since 1970 UTC, decimals their text, strings UTF-8
    bytes. Numbers are cast to the declared dtype.

    Raises
    ------
    NullValueError
        If a null has no value in TensorFlow.
    """
    if not isinstance(values, np.ndarray):
        if values.null_count:
            raise null_error(spec.name, values.null_count, "TensorFlow")
        if pa.types.is_list(values.type):
            return _lists(values, spec)
    return _flat(values, spec)


def _lists(lists: pa.Array, spec: ColumnSpec) -> Any:
    flat = _flat(lists.flatten(), spec)
    lengths = np.asarray(pc.list_value_length(lists)).astype(np.int64)
    if spec.ragged:
        splits = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=splits[1:])
        return tf.RaggedTensor.from_row_splits(flat, splits, validate=False)
    return flat.reshape(len(lengths), -1)


def _flat(values: Values, spec: ColumnSpec) -> npt.NDArray[Any]:
    if not isinstance(values, np.ndarray):
        if spec.dtype == "string":
            return _strings(values, spec.name)
        values = scalars_to_numpy(values, has_nulls=values.null_count > 0)
    if values.dtype.kind == "M":
        return nanoseconds(values, spec.name, "TensorFlow")
    keeps_nan = tf.as_dtype(spec.dtype).is_floating
    if values.dtype.kind == "f" and not keeps_nan and np.isnan(values).any():
        raise null_error(spec.name, int(np.isnan(values).sum()), "TensorFlow")
    if spec.dtype == "string" and values.dtype.kind != "O":
        return values.astype(object)
    return values if spec.dtype == "string" else values.astype(spec.dtype, copy=False)


def _strings(values: pa.Array, name: str) -> npt.NDArray[Any]:
    if values.null_count:
        raise null_error(name, values.null_count, "TensorFlow")
    if not pa.types.is_binary(values.type):
        values = values.cast(pa.string()).cast(pa.binary())
    return np.array(values.to_pylist(), object)
