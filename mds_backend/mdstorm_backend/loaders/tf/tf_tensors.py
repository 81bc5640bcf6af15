"""Convert batches to NumPy arrays and ragged tensors for TensorFlow."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import tensorflow as tf

from mdstorm_backend.errors import TransformError, UnsupportedTypeError
from mdstorm_backend.format import Column, Values, as_arrow
from mdstorm_backend.format.values import nested_lists
from mdstorm_backend.loaders.nulls import nanoseconds, null_error
from mdstorm_backend.loaders.tf.tf_specs import ColumnSpec
from mdstorm_backend.read import LateDecoder, scalars_to_numpy


def to_tf(values: Values, spec: ColumnSpec) -> Any:
    """Convert one column of a batch to the TensorFlow type declared by `spec`.

    Dates and timestamps become int64 nanoseconds since 1970 UTC, decimals their text, strings UTF-8
    bytes. Numbers are cast to the declared dtype.

    Raises
    ------
    NullValueError
        If a null has no value in TensorFlow.
    TransformError
        If a transform has returned values of another type or shape.
    """
    if spec.image is not None:
        return _images(values, spec.image)
    if spec.ragged and isinstance(values, np.ndarray):
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
    """Convert arrays, of one or of varying shapes, to nested lists of the declared depth."""
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
            raise UnsupportedTypeError(
                f"column {spec.name!r} holds {found} whose shape its encoding does not state, and "
                "only arrays of one dimension become a RaggedTensor. Leave it out with "
                "schema_fields=[…], read it with PyTorch or as NumPy, or write it as "
                "ndarray:<dtype>:<shape>",
                columns={spec.name: found},
            )


def _images(values: Values, column: Column) -> npt.NDArray[Any]:
    """Decode the images of a batch, which must share one shape."""
    if isinstance(values, np.ndarray):
        pixels = values
    elif values.null_count:
        raise null_error(column.name, values.null_count, "TensorFlow")
    else:
        pixels = LateDecoder(column)(values)
    if len(pixels) and pixels.dtype != np.uint8:
        shapes = sorted({f"{image.dtype}{list(image.shape)}" for image in pixels})
        raise UnsupportedTypeError(
            f"column {column.name!r} of {column.origin.url} holds images of different shapes in "
            f"one batch, or of more than 8 bits: {', '.join(shapes[:4])}. TensorFlow takes uint8 "
            "of one shape a batch: make them alike before writing, or read them with PyTorch or "
            "as NumPy",
            columns={column.name: ", ".join(shapes[:4])},
        )
    return pixels.astype(np.uint8, copy=False)


def _shape_error(spec: ColumnSpec, found: object) -> TransformError:
    expected = "arrays of varying length" if spec.ragged else f"shape {spec.shape}"
    return TransformError(
        f"column {spec.name!r} arrives in TensorFlow with {expected}, but the transform returned "
        f"{found}: declare its shape in edit_fields, and pad arrays to one length in the function"
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
            else "arrays of various lengths inside of others",
        )
    return _flat(nested_lists.elements_of(lists), spec).reshape(len(lists), *shape)


def _flat(values: Values, spec: ColumnSpec) -> npt.NDArray[Any]:
    if not isinstance(values, np.ndarray):
        if spec.dtype == "string":
            return _strings(values, spec.name)
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
        raise UnsupportedTypeError(
            f"column {spec.name!r} holds {found}, which no TensorFlow type can hold. Leave it out "
            "with schema_fields=[…], or read it with PyTorch or as NumPy",
            columns={spec.name: found},
        ) from error
    except (TypeError, ValueError) as error:
        raise _type_error(spec, "Python objects") from error


def _type_error(spec: ColumnSpec, found: object) -> TransformError:
    return TransformError(
        f"column {spec.name!r} arrives in TensorFlow as {spec.dtype}, but the transform returned "
        f"{found}: declare its NumPy type in edit_fields, or return that type"
    )


def _strings(values: pa.Array, name: str) -> npt.NDArray[Any]:
    if values.null_count:
        raise null_error(name, values.null_count, "TensorFlow")
    if not pa.types.is_binary(values.type):
        values = values.cast(pa.string()).cast(pa.binary())
    return np.array(values.to_pylist(), object)
