"""Decode arrays that are stored with their shape, and possibly their dtype.

::

    [dtype code, one byte]     only in the encoding ``ndarray``
    shape header               one byte ``dimensions << 2 | w``, then each in ``1 << w`` bytes
    values                     in C order

Columns of arrays of one dtype and one number of dimensions become Arrow lists, nested ones of more
than one; anything else becomes objects.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend.errors import UnsupportedEncodingError
from mdstorm_backend.format.encodings.dtypes import ARRAY_CODES, DTYPES
from mdstorm_backend.format.encodings.gather_values import Positions, gather_binary, gather_fixed
from mdstorm_backend.format.values.arrow_types import arrow_type_of
from mdstorm_backend.format.values.nested_lists import MOST_EMPTY_LISTS, lists_of_shapes

#: So many dimensions an array of NumPy may have; 32 before NumPy 2.
_MAX_DIMENSIONS = getattr(np, "MAXDIMS", 64)
#: A shard holds less than so many bytes.
_MOST_ELEMENTS = 1 << 32
#: Times the elements of a shard it fits into 64 bits.
_LARGEST_DIMENSION = 1 << 31
_WIDTHS = [np.dtype(name).newbyteorder("<") for name in ("u1", "u2", "u4", "u8")]


def decode_arrays(
    data: npt.NDArray[np.uint8],
    starts: Positions,
    lengths: Positions,
    dtype: np.dtype[np.generic] | None,
) -> pa.ListArray | npt.NDArray[np.object_]:
    """Copy arrays out of `data`.

    Parameters
    ----------
    data : numpy.ndarray
        The shard, uint8.
    starts, lengths : numpy.ndarray
        Position and size in bytes of each value; positions ascend and values do not overlap.
    dtype : numpy.dtype or None
        dtype of all of them; None where each states its own.

    Returns
    -------
    pyarrow.ListArray or numpy.ndarray
        Lists if all arrays have one dtype and as many dimensions, and lists can say their shape,
        otherwise writable arrays in an array of dtype object.

    Raises
    ------
    ValueError
        If a header contradicts the size of its value.
    """
    if len(starts) == 0:
        return pa.array([], pa.list_(pa.null() if dtype is None else arrow_type_of(dtype)))
    code_size = int(dtype is None)
    if (lengths <= code_size).any():
        raise ValueError("an array of no bytes")
    common = _common_dtype(data[starts]) if dtype is None else dtype
    marks = data[starts + code_size]
    depth, lists = int(marks[0]) >> 2, None
    if common is not None and (marks >> 2 == depth).all() and 0 < depth <= _MAX_DIMENSIONS:
        lists = _lists(data, starts + code_size, lengths - code_size, marks & 3, depth, common)
    if lists is None:
        decode = array_decoder(data.data, dtype)
        ends = starts + lengths
        arrays = [decode(*span) for span in zip(starts.tolist(), ends.tolist(), strict=True)]
        return np.fromiter(arrays, object, len(arrays))
    return lists


def _lists(
    data: npt.NDArray[np.uint8],
    starts: Positions,
    lengths: Positions,
    widths: npt.NDArray[Any],
    depth: int,
    dtype: np.dtype[np.generic],
) -> pa.ListArray | None:
    """Decode arrays of `depth` dimensions; None if lists cannot say their shapes.

    `widths` are those of their lengths, as powers of two.
    """
    headers = 1 + depth * (1 << widths.astype(np.int64))
    if (lengths < headers).any():
        raise ValueError("an array with a header that is longer than its value")
    stated = np.empty((len(starts), depth), np.uint64)
    used = np.unique(widths).tolist()
    for width in used:
        chosen = slice(None) if len(used) == 1 else widths == width
        found = gather_fixed(data, starts[chosen] + 1, _WIDTHS[width], depth)
        stated[chosen] = found.reshape(-1, depth)
    if stated.max() >= _LARGEST_DIMENSION:
        return None
    sizes = stated.astype(np.int64)
    if depth > 1:
        # Of an array without elements, lists do not say the dimensions within an empty one.
        empty = np.logical_or.accumulate(sizes == 0, axis=1)
        if (sizes[:, 1:][empty[:, :-1]] != 0).any():
            return None
    counts = sizes[:, 0]
    for level in range(1, depth):
        if counts.sum() > max(int(lengths.sum()), MOST_EMPTY_LISTS):
            return None
        counts = counts * sizes[:, level]
        if (counts >= _MOST_ELEMENTS).any():
            raise ValueError("an array of another shape than its header says")
    if (counts * dtype.itemsize != lengths - headers).any():
        raise ValueError("an array of another shape than its header says")
    raw = gather_binary(data, starts + headers, lengths - headers, pa.binary())
    elements = pa.Array.from_buffers(
        arrow_type_of(dtype), int(counts.sum()), [None, raw.buffers()[2]]
    )
    return lists_of_shapes(elements, sizes)


def _common_dtype(codes: npt.NDArray[np.uint8]) -> np.dtype[Any] | None:
    """Return the dtype that all codes name, or None if they differ."""
    return _dtype_of(int(codes[0])) if (codes == codes[0]).all() else None


def _dtype_of(code: int) -> np.dtype[Any]:
    if code not in ARRAY_CODES:
        raise ValueError(f"an array with the unknown dtype code {code}")
    return DTYPES[ARRAY_CODES[code]]


def array_decoder(
    data: memoryview, dtype: np.dtype[np.generic] | None
) -> Callable[[int, int], npt.NDArray[Any]]:
    """Return the function that copies the array between two byte positions out of `data`.

    It raises ValueError, or IndexError at the end of `data`, if the header contradicts the size of
    the value; nothing is allocated before that is known.
    """

    def decode(start: int, stop: int) -> npt.NDArray[Any]:
        own = dtype
        if own is None:
            own = _dtype_of(data[start])
            start += 1
        mark = data[start]
        width = 1 << (mark & 3)
        first = start + 1 + (mark >> 2) * width
        if first > stop:
            raise ValueError("an array with a header that is longer than its value")
        places = range(start + 1, first, width)
        shape = [int.from_bytes(data[at : at + width], "little") for at in places]
        count = math.prod(shape)
        if first + count * own.itemsize != stop:
            raise ValueError(f"an array of shape {shape} in {stop - first} bytes")
        if len(shape) > _MAX_DIMENSIONS:
            raise UnsupportedEncodingError(
                f"there are arrays of {len(shape)} dimensions, and NumPy {np.__version__} has no "
                f"more than {_MAX_DIMENSIONS}. Install NumPy 2, or leave them out with columns=[…]"
            )
        if count == 0:
            return np.empty(shape, own)
        view: npt.NDArray[Any] = np.ndarray(shape, own, data, first)
        copy: npt.NDArray[Any] = view.copy()
        return copy

    return decode
