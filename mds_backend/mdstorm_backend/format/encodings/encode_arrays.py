"""One-dimensional numeric arrays as ``ndarray`` values.

Rows of one length are stored without it, as ``ndarray:<dtype>:<length>``. Otherwise each value
carries a shape header: a byte ``1 << 2 | w`` (one dimension, length in ``1 << w`` bytes), then the
length. An empty array is the header of length 0, which other readers decode to shape ``(0,)``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from mdstorm_backend.format.encodings.dtypes import DTYPE_CODES, array_encoding
from mdstorm_backend.format.encodings.encode_numbers import to_numpy
from mdstorm_backend.format.encodings.encoded_column import EncodedColumn

__all__ = ["encode_arrays"]

_LENGTH_LIMITS = np.array([1 << 8, 1 << 16], np.int64)


def encode_arrays(
    name: str,
    lists: pa.Array,
    dtype: np.dtype[np.generic],
    valid: npt.NDArray[np.bool_] | None,
    *,
    ragged: bool,
    shape: tuple[int, ...] | None = None,
    states_dtype: bool = False,
    convert: Callable[[pa.Array, np.dtype[Any]], npt.NDArray[Any]] = to_numpy,
    text: str = "",
) -> EncodedColumn:
    """Encode lists of numbers.

    Parameters
    ----------
    name : str
        Name of the column.
    lists : pyarrow.ListArray
        The rows; `valid` tells which are not null (None: all).
    dtype : numpy.dtype
        Little-endian dtype of the stored elements.
    ragged : bool
        Store the lengths even if all rows have the same.
    shape : tuple of int, optional
        What the encoding says of every row, which must have as many elements.
    states_dtype : bool
        Whether each value names its dtype.
    convert : callable
        Makes the stored form of the elements.
    text : str
        The encoding, where it is more than the dtype.

    Raises
    ------
    ValueError
        If a row has not as many elements as `shape` asks for.
    """
    flat = lists.flatten()
    values = convert(flat, dtype)
    elements = np.asarray(flat.is_valid()) if flat.null_count else None
    lengths = np.asarray(pc.fill_null(pc.list_value_length(lists), 0)).astype(np.int64)
    present = np.ones(len(lists), np.bool_) if valid is None else valid
    length = _common_length(lengths[present])
    if shape is not None:
        length = _checked_length(lengths[present], shape)
    elif ragged or states_dtype or not length:
        parts = _ragged_parts(lengths, values)
        if states_dtype:
            codes = np.full(len(lists), DTYPE_CODES[dtype.name], np.uint8)
            parts.insert(0, _binary(np.arange(len(lists) + 1), codes))
        return EncodedColumn(
            name,
            text if states_dtype else array_encoding(dtype, None),
            parts=parts,
            valid=valid,
            elements=elements,
            element_ends=_ends(lengths),
        )
    placeholder = np.nan if dtype.kind == "f" else 0
    if elements is not None:
        elements = _spread(elements.reshape(-1, length), present, True).reshape(-1)
    return EncodedColumn(
        name,
        array_encoding(dtype, length) if shape is None else text,
        fixed=_spread(values.reshape(-1, length), present, placeholder),
        valid=valid,
        elements=elements,
        element_ends=np.arange(len(lists) + 1) * length,
    )


def _common_length(lengths: npt.NDArray[np.int64]) -> int:
    """Return the length that all rows share; 0 if there is none."""
    return int(lengths[0]) if len(lengths) and (lengths == lengths[0]).all() else 0


def _checked_length(lengths: npt.NDArray[np.int64], shape: tuple[int, ...]) -> int:
    """Return the number of elements of `shape` if all rows have it."""
    length = math.prod(shape)
    wrong = lengths[lengths != length]
    if len(wrong):
        raise ValueError(f"a row has {wrong[0]} elements, and the shape {shape} has {length}")
    return length


def _spread(
    matrix: npt.NDArray[Any], present: npt.NDArray[np.bool_], placeholder: object
) -> npt.NDArray[Any]:
    """Put the rows of `matrix` where `present` is True, a placeholder elsewhere."""
    if present.all():
        return matrix
    spread = np.full((len(present), matrix.shape[1]), placeholder, matrix.dtype)
    spread[present] = matrix
    return spread


def _ends(sizes: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    ends = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=ends[1:])
    return ends


def _ragged_parts(
    lengths: npt.NDArray[np.int64], values: npt.NDArray[Any]
) -> list[pa.LargeBinaryArray]:
    width = np.searchsorted(_LENGTH_LIMITS, lengths, side="right")
    header = np.zeros((len(lengths), 5), np.uint8)
    header[:, 0] = 1 << 2 | width
    header[:, 1:] = lengths.astype("<u4").view(np.uint8).reshape(-1, 4)
    sizes = 1 + (1 << width)
    used = np.arange(5) < sizes[:, None]
    return [
        _binary(_ends(sizes), header[used]),
        _binary(_ends(lengths * values.dtype.itemsize), np.ascontiguousarray(values)),
    ]


def _binary(ends: npt.NDArray[np.int64], data: npt.NDArray[Any]) -> pa.LargeBinaryArray:
    """Wrap bytes as a binary array whose values end at `ends[1:]`; nothing is copied."""
    return pa.LargeBinaryArray.from_buffers(
        pa.large_binary(), len(ends) - 1, [None, pa.py_buffer(ends), pa.py_buffer(data)]
    )
