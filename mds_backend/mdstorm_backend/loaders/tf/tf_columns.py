"""Batch columns in TensorFlow: `ColumnSpec` declares a column, `to_tf` converts its values."""

from __future__ import annotations

import collections
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tensorflow as tf

from mdstorm_backend import errors
from mdstorm_backend.format import Column, Values, as_arrow, is_number, numpy_dtype
from mdstorm_backend.format.values import nested_lists
from mdstorm_backend.loaders.nulls import check_nulls, null_error
from mdstorm_backend.loaders.reader_options import ReaderOptions
from mdstorm_backend.loaders.times import nanoseconds
from mdstorm_backend.read import ImageDecoder, decode_late, scalars_to_numpy
from mdstorm_backend.read.stacking import Output, check_numbers, output_name

#: Dtypes that Petastorm's adapter promotes → the dtypes that it promotes them to.
_PROMOTED = {"uint16": "int32", "uint32": "int64"}


@dataclass(frozen=True)
class ColumnSpec:
    """The name, dtype and shape of a column in TensorFlow.

    Attributes
    ----------
    name : str
        Name of the column.
    dtype : str
        Name of the TensorFlow dtype.
    shape : tuple of int or None
        Shape of a single value; of ragged values, the dimensions after the ragged ones.
    ragged : bool
        Whether values are arrays of varying length, or lists of them.
    dimensions : int
        Number of ragged dimensions.
    image : Column or None
        The stored column, if it holds images. Images in a batch share a shape that is known only
        once they are decoded.
    stacked : str
        NumPy dtype of the values in a matrix, if TensorFlow promotes them; else empty.
    stored_at : str
        URL of the files that hold arrays of unknown length; empty if a transform makes the values.
    """

    name: str
    dtype: str
    shape: tuple[int | None, ...] = ()
    ragged: bool = False
    dimensions: int = 1
    image: Column | None = None
    stacked: str = ""
    stored_at: str = ""

    @property
    def is_fixed(self) -> bool:
        """Whether all values in the dataset have the same shape."""
        return not self.ragged and None not in self.shape and self.image is None

    @property
    def signature(self) -> Any:
        """The ``TypeSpec`` for a batch of the column."""
        dtype = tf.as_dtype(self.dtype)
        if self.image is not None:
            return tf.TensorSpec(None, dtype)
        if self.ragged:
            rank = self.dimensions
            return tf.RaggedTensorSpec(
                (None,) * (rank + 1) + self.shape,
                dtype,
                ragged_rank=rank,
                row_splits_dtype=tf.int64,
            )
        return tf.TensorSpec((None, *self.shape), dtype)


def spec_of_column(column: Column, images: ImageDecoder | None = None) -> ColumnSpec:
    """Return the spec of a stored column, which may be decoded by `images`.

    Raises
    ------
    UnsupportedTypeError
        If TensorFlow has no type for the column.
    """
    if images is not None and column.name in images.names:
        return ColumnSpec(column.name, "uint8", images.shape)
    encoding, type_ = column.parsed_encoding, column.arrow_type
    dtype, depth = _dtype_of(column), nested_lists.depth_of(type_)
    if dtype is None:
        raise _no_counterpart(column)
    if encoding.is_image:
        return ColumnSpec(column.name, dtype, image=column)
    if not depth:
        stored = str(numpy_dtype(type_).name) if is_number(type_) else ""
        return ColumnSpec(column.name, dtype, stacked=stored if stored in _PROMOTED else "")
    if column.value_shape:
        return ColumnSpec(column.name, dtype, column.value_shape)
    if column.origin.lengths == "unknown":
        return ColumnSpec(column.name, dtype, (None,) * depth, stored_at=column.origin.url)
    return ColumnSpec(column.name, dtype, ragged=True, dimensions=depth)


def _dtype_of(column: Column) -> str | None:
    """Return the TensorFlow dtype name of a column's values or elements; None if no dtype fits."""
    types, type_ = pa.types, column.element_type
    if column.is_image:
        return "uint8"
    if column.is_late and not column.parsed_encoding.is_text:
        return None  # only the stored bytes are returned
    if types.is_string(type_) or types.is_binary(type_) or types.is_decimal(type_):
        return "string"
    if types.is_temporal(type_):
        return "int64"
    if not is_number(type_):
        return None
    name = str(numpy_dtype(type_).name)
    return _PROMOTED.get(name, name)


def _no_counterpart(column: Column) -> errors.UnsupportedTypeError:
    if column.is_array:
        kind = "arrays of different dtypes"
    elif column.spark_type is not None:
        kind = f"type {column.arrow_type}"
    else:
        kind = f"encoding {column.encoding!r}"
    return errors.UnsupportedTypeError(
        f"column {column.name!r} of {kind} has no counterpart in TensorFlow. Leave it out with "
        "schema_fields=[…], or split it into plain columns before converting",
        columns={column.name: kind},
    )


def stored_specs(options: ReaderOptions, names: Sequence[str] | None = None) -> list[ColumnSpec]:
    """Return the specs of columns without a transform, by default of all output columns.

    Raises
    ------
    NullValueError
        If columns hold nulls that TensorFlow cannot represent.
    """
    specs = []
    for name in options.output_columns if names is None else names:
        column = options.reading.column(name)
        if column is None:
            specs.append(ColumnSpec(name, "bool"))
            continue
        specs.append(spec_of_column(column, options.reading.images))
    check_nulls_of(options)
    return specs


def check_nulls_of(options: ReaderOptions) -> None:
    """Raise NullValueError for stored columns with nulls that TensorFlow cannot represent.

    A warning is logged about nulls that become NaN.
    """
    check_nulls(options.null_checked, "TensorFlow", needs_value)


def needs_value(column: Column) -> bool:
    """Whether nulls in a column would become arbitrary values; null floats become NaN."""
    return not column.is_floating or (column.is_array and column.null_count > 0)


def arranged_specs(specs: Sequence[ColumnSpec], outputs: Sequence[Output]) -> list[ColumnSpec]:
    """Return the specs of a batch's outputs, given the specs of its columns.

    Raises
    ------
    InvalidArgumentError
        If the columns of a matrix are not numeric.
    """
    by_name = {spec.name: spec for spec in specs}
    arranged: list[ColumnSpec] = []
    for output in outputs or tuple(by_name):
        if isinstance(output, str):
            arranged.append(by_name[output])
            continue
        columns = [by_name[name] for name in output.columns]
        check_numbers(
            {c.name: c.dtype if c.signature.shape.rank in (1, 2) else "array" for c in columns}
        )
        check_numbers({c.name: "ragged array" for c in columns if c.ragged})
        widths = [size for column in columns for size in (column.shape or (1,))]
        dtype = output.dtype_of([column.stacked or column.dtype for column in columns]).name
        shape = (None if None in widths else sum(size or 0 for size in widths),)
        arranged.append(ColumnSpec(output_name(output), _PROMOTED.get(dtype, dtype), shape))
    return arranged


@lru_cache(maxsize=256)
def row_type(type_name: str, names: tuple[str, ...]) -> Any:
    """Return the namedtuple type for columns with these names; equal names share a type.

    Raises
    ------
    InvalidArgumentError
        If a column name is not a valid field name; the message contains Python's message.
    """
    try:
        base = collections.namedtuple(type_name, names)  # type: ignore[misc]
    except ValueError as error:
        raise errors.InvalidArgumentError(
            f"{error}: batches are namedtuples here, so column names must be valid Python field "
            "names. Rename the columns before converting, as with df.toDF(…), or select a subset "
            f"of {list(names)} with schema_fields"
        ) from error
    return type(type_name, (base,), {"__slots__": (), "_from_compatible_tensor_list": made_of})


def made_of(types: Any, tensors: Sequence[Any]) -> Any:
    """Return a namedtuple of tensors; `types` is the namedtuple of their specs.

    TensorFlow's iterators first try their element spec's ``_from_compatible_tensor_list``.
    Otherwise they walk through the structure, which takes longer than getting the tensors.

    Raises
    ------
    AttributeError
        If not all elements are plain tensors, to make TensorFlow walk through the structure.
    """
    if any(type(one) is not tf.TensorSpec for one in types):
        raise AttributeError(f"{type(types).__name__} has fields that consist of several tensors")
    return types._make(tensors)


def to_tf(values: Values, spec: ColumnSpec) -> Any:
    """Convert a batch's column to the TensorFlow type declared by `spec`.

    Dates and timestamps become int64 nanoseconds since 1970 UTC, decimals their string form,
    strings UTF-8 bytes. Numbers are cast to the declared dtype.

    Raises
    ------
    NullValueError
        If TensorFlow cannot represent a null.
    TransformError
        If a transform has returned values of a different type or shape.
    """
    if spec.image is not None:
        return _images(values, spec.image)
    if spec.ragged and isinstance(values, np.ndarray):
        if spec.shape:
            return _ragged_arrays(values, spec)
        values = _as_lists(values, spec)
    if isinstance(values, np.ndarray):
        result = _flat(values, spec)
    elif values.null_count:
        raise null_error(spec.name, values.null_count, "TensorFlow")
    elif not pa.types.is_list(values.type):
        result = _flat(values, spec)
    elif spec.ragged:
        return _ragged(values, spec)
    else:
        result = _dense(values, spec)
    found = result.shape[1:]
    if spec.ragged or len(found) != len(spec.shape):
        raise _shape_error(spec, found)
    if any(size not in (None, own) for own, size in zip(found, spec.shape, strict=True)):
        raise _shape_error(spec, found)
    return result


def _as_lists(values: npt.NDArray[Any], spec: ColumnSpec) -> Values:
    """Convert arrays, of the same or varying shapes, to nested lists of the declared depth."""
    if values.dtype == object:
        if spec.dimensions == 1 or not all(isinstance(value, np.ndarray) for value in values):
            _check_dimensions(values, spec)
            return values
        try:
            type_ = nested_lists.list_type(
                pa.from_numpy_dtype(np.dtype(spec.dtype)), spec.dimensions
            )
            return nested_lists.lists_of_arrays(list(values), type_)
        except ValueError as error:
            raise _shape_error(spec, error) from error
    if values.ndim != spec.dimensions + 1:
        return values
    return as_arrow(values) if values.ndim == 2 else nested_lists.lists_of_array(values)


def _check_dimensions(arrays: npt.NDArray[Any], spec: ColumnSpec) -> None:
    """Raise UnsupportedTypeError for stored arrays whose number of dimensions is not 1."""
    for array in arrays:
        if isinstance(array, np.ndarray) and array.ndim != 1:
            found = f"arrays of {array.ndim} dimensions"
            raise errors.UnsupportedTypeError(
                f"column {spec.name!r} holds {found} whose shape its encoding does not define, but "
                "only arrays of one dimension become a RaggedTensor. Leave it out with "
                "schema_fields=[…], read it with PyTorch or as NumPy, or write it as "
                "ndarray:<dtype>:<shape>",
                columns={spec.name: found},
            )


def _images(values: Values, column: Column) -> npt.NDArray[Any]:
    """Decode the images in a batch, which must all have the same shape."""
    if isinstance(values, np.ndarray):
        pixels = values
    elif values.null_count:
        raise null_error(column.name, values.null_count, "TensorFlow")
    else:
        pixels = decode_late(values, column)
    if len(pixels) and pixels.dtype != np.uint8:
        shapes = sorted({f"{image.dtype}{list(image.shape)}" for image in pixels})
        raise errors.UnsupportedTypeError(
            f"column {column.name!r} of {column.origin.url} holds images of different shapes in "
            f"one batch, or of more than 8 bits: {', '.join(shapes[:4])}. TensorFlow needs 8-bit "
            "images of the same shape in each batch: convert and resize them before writing, or "
            "read them with PyTorch or as NumPy",
            columns={column.name: ", ".join(shapes[:4])},
        )
    return pixels.astype(np.uint8, copy=False)


def _shape_error(
    spec: ColumnSpec, actual: object
) -> errors.TransformError | errors.UnsupportedTypeError:
    if spec.stored_at:
        return errors.UnsupportedTypeError(
            f"column {spec.name!r} of {spec.stored_at} holds {actual}, which do not fit into one "
            f"tensor of {len(spec.shape) + 1} dimensions. Convert the files with `mdstorm convert`,"
            " which makes the column a RaggedTensor, pad its arrays to the same length in a "
            "TransformSpec, or leave it out with schema_fields=[…]",
            columns={spec.name: str(actual)},
        )
    expected = "arrays of varying length" if spec.ragged else f"shape {spec.shape}"
    return errors.TransformError(
        f"column {spec.name!r} has {expected} in TensorFlow, but the transform returned {actual}: "
        "declare its shape in edit_fields, with None for a length that varies, or pad arrays to "
        "the same length in the function"
    )


def _ragged(lists: pa.Array, spec: ColumnSpec) -> Any:
    nulls = nested_lists.null_lists_in(lists)
    if nulls:
        raise null_error(spec.name, nulls, "TensorFlow", inside=True)
    if nested_lists.depth_of(lists.type) != spec.dimensions:
        raise _shape_error(spec, f"arrays of {nested_lists.depth_of(lists.type)} dimensions")
    flat = _flat(nested_lists.elements_of(lists), spec)
    splits = [nested_lists.ends_of(lengths) for lengths in nested_lists.levels_of(lists)]
    return tf.RaggedTensor.from_nested_row_splits(flat, splits, validate=False)


def _ragged_arrays(arrays: npt.NDArray[Any], spec: ColumnSpec) -> Any:
    """Convert arrays that differ only in their ragged dimensions, which are the first ones."""
    nulls = sum(array is None for array in arrays)
    if nulls:
        raise null_error(spec.name, nulls, "TensorFlow")
    rank, inner = spec.dimensions, tuple(size or 0 for size in spec.shape)
    for array in arrays:
        found = np.shape(array)
        if len(found) != rank + len(inner) or found[rank:] != inner:
            raise _shape_error(spec, f"the shape {found}")
    parts = [array.reshape(math.prod(array.shape[:rank]), *inner) for array in arrays]
    flat = np.concatenate([np.empty((0, *inner), spec.dtype), *parts])
    sizes = np.array([array.shape[:rank] for array in arrays], np.int64).reshape(-1, rank)
    counts = [np.prod(sizes[:, :level], axis=1, dtype=np.int64) for level in range(rank)]
    lengths = [np.repeat(sizes[:, level], counts[level]) for level in range(rank)]
    splits = list(map(nested_lists.ends_of, lengths))
    return tf.RaggedTensor.from_nested_row_splits(_flat(flat, spec), splits, validate=False)


def _dense(lists: pa.Array, spec: ColumnSpec) -> npt.NDArray[Any]:
    nulls = nested_lists.null_lists_in(lists)
    if nulls:
        raise null_error(spec.name, nulls, "TensorFlow", inside=True)
    shapes = nested_lists.shapes_of(lists)
    shape = shapes.common() if len(lists) else tuple(size or 0 for size in spec.shape)
    if shape is None:
        lengths = np.unique(shapes.sizes[:, 0])
        raise _shape_error(
            spec,
            f"arrays of lengths from {lengths[0]} to {lengths[-1]}"
            if len(lengths) > 1
            else "arrays of various lengths inside other arrays",
        )
    return _flat(nested_lists.elements_of(lists), spec).reshape(len(lists), *shape)


def _flat(values: Values, spec: ColumnSpec) -> npt.NDArray[Any]:
    if not isinstance(values, np.ndarray):
        if spec.dtype == "string":
            return _strings(values, spec)
        values = scalars_to_numpy(values, has_nulls=values.null_count > 0)
    kind = values.dtype.kind
    if kind == "M":
        return nanoseconds(values, spec.name, "TensorFlow")
    if spec.dtype == "string":
        if kind not in "OSU":
            raise _type_error(spec, values.dtype)
        return values.astype(object)
    if kind == "f" and not tf.as_dtype(spec.dtype).is_floating and np.isnan(values).any():
        raise null_error(spec.name, int(np.isnan(values).sum()), "TensorFlow")
    try:
        return values.astype(spec.dtype, copy=False)
    except OverflowError as error:
        found = "integers of more than 64 bits"
        raise errors.UnsupportedTypeError(
            f"column {spec.name!r} holds {found}, which no TensorFlow type can hold. Leave it out "
            "with schema_fields=[…], or read it with PyTorch or as NumPy",
            columns={spec.name: found},
        ) from error
    except (TypeError, ValueError) as error:
        raise _type_error(spec, "Python objects") from error


def _type_error(spec: ColumnSpec, found: object) -> errors.TransformError:
    return errors.TransformError(
        f"column {spec.name!r} is declared to TensorFlow as {spec.dtype}, but the transform "
        f"returned {found}: declare its NumPy type in edit_fields, or return that type"
    )


def _strings(values: pa.Array, spec: ColumnSpec) -> npt.NDArray[Any]:
    if values.null_count:
        inside = spec.ragged or bool(spec.shape)
        raise null_error(spec.name, values.null_count, "TensorFlow", inside=inside)
    if not pa.types.is_binary(values.type):
        values = values.cast(pa.string()).cast(pa.binary())
    return np.array(values.to_pylist(), object)
