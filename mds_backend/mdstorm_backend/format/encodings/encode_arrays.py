"""Encode numeric arrays: single NumPy arrays, or Arrow columns of lists.

A value is ``[dtype code][shape header][numbers]``, without the parts that the encoding states. The
header is a byte ``dimensions << 2 | w``, then the size of each dimension in ``1 << w`` bytes. An
array without elements is stored like any other, which other readers can decode.

Lists of the same length, or nested lists of the same shape, are stored without headers, as
``ndarray:<dtype>:<shape>``. Nested lists that are not rectangular, because inner lists
have different lengths or are null, are stored as JSON.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend.format.encodings import numbers
from mdstorm_backend.format.encodings.encoding import EncodedColumn, Encoding
from mdstorm_backend.format.encodings.json_text import json_text
from mdstorm_backend.format.values import arrow_types, nested_lists
from mdstorm_backend.format.values.nested_lists import Shapes, ends_of

#: The first byte of the header has six bits for the number of dimensions.
_MAX_DIMENSIONS = 63
#: Smallest array length that needs more than one byte in a header.
_SHORT = 256
#: Message for nested lists that have no shape.
UNEVEN = "a row holds lists of different lengths or null lists, so it is not an array"

#: Smallest lengths that need 2 and 4 bytes in a header.
_LENGTH_LIMITS = np.array([1 << 8, 1 << 16], np.int64)
_LENGTH_DTYPES = [np.dtype(name) for name in ("<u1", "<u2", "<u4")]


def array_encoder(
    dtype: np.dtype[np.generic] | None, shape: tuple[int, ...] | None
) -> Callable[[Any], bytes]:
    """Return the function that encodes one array.

    `dtype` and `shape` are the ones that the encoding states, or None. The function raises
    TypeError if the value is not a NumPy array, and ValueError if its dtype or shape differs from
    the encoding's, or cannot be stored in the format.
    """
    # dtype → the bytes before the shape, for dtypes that need no further check or conversion.
    prefixes = {
        np.dtype(name): b"" if dtype is not None else bytes([code])
        for name, code in numbers.DTYPE_CODES.items()
        if dtype is None or name == dtype.name
    }

    def encode(value: Any) -> bytes:
        prefix = prefixes.get(value.dtype) if type(value) is np.ndarray else None
        if prefix is None:
            value = _checked(dtype, value)
            prefix = b"" if dtype is not None else bytes([numbers.DTYPE_CODES[value.dtype.name]])
        found: tuple[int, ...] = value.shape
        if shape is None:
            return prefix + _shape_header(found) + bytes(value.tobytes())
        if found != shape:
            raise ValueError(f"its shape is {found} and must be {shape}")
        return bytes(value.tobytes())

    return encode


def _checked(dtype: np.dtype[np.generic] | None, value: Any) -> npt.NDArray[Any]:
    """Return the array in little-endian order; raise an error if it cannot be stored."""
    if not isinstance(value, (np.ndarray, np.generic)):
        raise TypeError(f"expected a NumPy array, found {type(value).__name__}: use np.asarray(…)")
    numbers.check_no_mask(value)
    stored, wanted = value.dtype.name, None if dtype is None else dtype.name
    if stored not in numbers.DTYPE_CODES:
        raise ValueError(
            f"its dtype {stored} is not one of {', '.join(sorted(numbers.DTYPE_CODES))}"
        )
    if wanted not in (None, stored):
        raise ValueError(f"its dtype is {stored} and must be {wanted}: use .astype({wanted!r})")
    return np.asarray(value.astype(value.dtype.newbyteorder("<"), copy=False))


def _shape_header(shape: tuple[int, ...]) -> bytes:
    if len(shape) == 1 and shape[0] < _SHORT:
        return _SHORT_HEADERS[shape[0]]
    if not shape:
        raise ValueError("expected an array of at least one dimension, found a scalar")
    if len(shape) > _MAX_DIMENSIONS:
        raise ValueError(
            f"it has {len(shape)} dimensions, but at most {_MAX_DIMENSIONS} are supported"
        )
    largest = max(shape)
    width = next(w for w in range(4) if largest < 1 << (8 << w))
    dimensions = b"".join([size.to_bytes(1 << width, "little") for size in shape])
    return bytes([len(shape) << 2 | width]) + dimensions


_SHORT_HEADERS = [bytes([1 << 2, length]) for length in range(_SHORT)]


def encode_lists(
    name: str, encoding: Encoding, lists: pa.Array, *, cast: bool, ragged: bool
) -> EncodedColumn:
    """Encode lists of numbers, of any depth.

    Parameters
    ----------
    name : str
        Name of the column.
    encoding : Encoding
        The column's encoding, whose dtype, shape and `text` are used.
    lists : pyarrow.ListArray
        The rows.
    cast : bool
        Cast floating-point numbers as Spark does, and store all rows as JSON if one of them is not
        rectangular; otherwise every number must fit, and every row must be rectangular.
    ragged : bool
        Store the shapes even if all rows have the same shape.

    Raises
    ------
    ValueError
        If a row does not have the encoding's shape or number of elements; or if nested lists that
        must not be JSON are not rectangular, or have nulls among integers.
    """
    flat, shapes = nested_lists.elements_of(lists), nested_lists.shapes_of(lists)
    dtype = encoding.dtype or arrow_types.numpy_dtype(flat.type).newbyteorder("<")
    if not cast:
        _check_rectangular(shapes, flat, dtype)
    if shapes.uneven is not None and encoding.shape is None:
        return encode_as_json(name, lists, dtype)
    values = numbers.to_numpy(flat, dtype) if cast else numbers.fit_numbers(flat, dtype)
    valid, elements = arrow_types.validity(lists), arrow_types.validity(flat)
    present = np.ones(len(lists), np.bool_) if valid is None else valid
    common = shapes.common(valid)
    if encoding.shape is not None:
        length, text = _checked_length(shapes, present, encoding.shape), encoding.text
    elif not ragged and encoding.dtype is not None and common and 0 not in common:
        length, text = math.prod(common), numbers.array_encoding(dtype, common)
    else:
        parts, text = _ragged_parts(shapes, values), numbers.array_encoding(dtype, None)
        if encoding.dtype is None:
            codes = np.full(len(lists), numbers.DTYPE_CODES[dtype.name], np.uint8)
            parts.insert(0, _binary(np.arange(len(lists) + 1), codes))
            text = encoding.text
        ends = ends_of(shapes.counts)
        return EncodedColumn(
            name, text, parts=parts, valid=valid, elements=elements, element_ends=ends
        )
    fixed = _spread(values.reshape(-1, length), present, np.nan if dtype.kind == "f" else 0)
    if elements is not None:
        elements = _spread(elements.reshape(-1, length), present, True).reshape(-1)
    ends = np.arange(len(lists) + 1) * length
    return EncodedColumn(name, text, fixed=fixed, valid=valid, elements=elements, element_ends=ends)


def encode_as_json(name: str, lists: pa.Array, dtype: np.dtype[Any]) -> EncodedColumn:
    """Encode nested lists of numbers as JSON, with floating-point numbers cast to `dtype`."""
    flat, valid = nested_lists.elements_of(lists), arrow_types.validity(lists)
    if pa.types.is_floating(flat.type) and flat.type != arrow_types.arrow_type_of(dtype):
        present = arrow_types.validity(flat)
        cast = pa.array(numbers.to_numpy(flat, dtype), mask=None if present is None else ~present)
        lists = nested_lists.with_elements(lists, cast)
    # The JSON text shows which elements are null; the bitmap only counts them, with one unset bit
    # for each.
    ends = ends_of(nested_lists.null_counts_of(lists))
    nulls = np.zeros(ends[-1], np.bool_) if ends[-1] else None
    text = json_text(lists).cast(pa.large_binary())
    return EncodedColumn(name, "json", parts=[text], valid=valid, elements=nulls, element_ends=ends)


def _check_rectangular(shapes: Shapes, flat: pa.Array, dtype: np.dtype[Any]) -> None:
    has_nulls = shapes.sizes.shape[1] > 1 and flat.null_count and dtype.kind != "f"
    if shapes.uneven is not None or has_nulls:
        what = "a row of nested lists has null elements" if shapes.uneven is None else UNEVEN
        raise ValueError(
            what + (": cast the elements to a signed type" if dtype.kind == "u" else "")
        )


def _checked_length(shapes: Shapes, present: npt.NDArray[np.bool_], shape: tuple[int, ...]) -> int:
    """Return the number of elements per row; raise an error if rows do not match the shape."""
    length = math.prod(shape)
    if shapes.sizes.shape[1] == 1:
        lengths = shapes.sizes[present, 0]
        wrong = lengths[lengths != length]
        if len(wrong):
            raise ValueError(f"a row has {wrong[0]} elements, but the shape {shape} has {length}")
        return length
    if shapes.uneven is not None:
        raise ValueError(f"a row holds lists of different lengths or null lists, expected {shape}")
    found = shapes.sizes[present]
    differ = found[(found != shape).any(axis=1)]
    if len(differ):
        raise ValueError(f"a row has the shape {tuple(differ[0].tolist())}, expected {shape}")
    return length


def _spread(
    matrix: npt.NDArray[Any], present: npt.NDArray[np.bool_], placeholder: object
) -> npt.NDArray[Any]:
    """Spread the rows of `matrix` over the rows that are present, with placeholders elsewhere."""
    if present.all():
        return matrix
    spread = np.full((len(present), matrix.shape[1]), placeholder, matrix.dtype)
    spread[present] = matrix
    return spread


def _ragged_parts(shapes: Shapes, values: npt.NDArray[Any]) -> list[pa.LargeBinaryArray]:
    rows, depth = shapes.sizes.shape
    largest = reduce(np.maximum, shapes.sizes.T)
    width = np.searchsorted(_LENGTH_LIMITS, largest, side="right")
    header = np.zeros((rows, 1 + 4 * depth), np.uint8)
    header[:, 0] = depth << 2 | width
    widths = range(int(width.min(initial=2)), int(width.max(initial=0)) + 1)
    for code in widths:
        chosen = slice(None) if len(widths) == 1 else width == code
        stored = shapes.sizes[chosen].astype(_LENGTH_DTYPES[code]).view(np.uint8)
        header[chosen, 1 : 1 + stored.shape[1]] = stored
    sizes = 1 + depth * (1 << width)
    used = np.arange(header.shape[1]) < sizes[:, None]
    return [
        _binary(ends_of(sizes), header[used]),
        _binary(ends_of(shapes.counts * values.dtype.itemsize), np.ascontiguousarray(values)),
    ]


def _binary(ends: npt.NDArray[np.int64], data: npt.NDArray[Any]) -> pa.LargeBinaryArray:
    """Wrap `data` as a binary array with the offsets `ends`, without a copy."""
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(ends) - 1, [None, pa.py_buffer(ends), pa.py_buffer(data)]
    )
