"""Gather values of fixed or varying size out of the bytes of a shard.

A shard is one buffer in which values lie at known places. Fixed-size values are gathered through a
view that has an element at every byte; variable-size ones by Arrow, which is told that the buffer
is a binary array in which values and the gaps between them alternate, and takes every second.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend.format.values.batch import too_large

Positions = npt.NDArray[np.int64]
_INT32_MAX = np.iinfo(np.int32).max


def gather_fixed(
    data: npt.NDArray[np.uint8], starts: Positions, dtype: np.dtype[np.generic], width: int = 1
) -> npt.NDArray[np.generic]:
    """Copy `width` values of `dtype` from each of the byte positions `starts`.

    Returns
    -------
    numpy.ndarray
        Shape ``(len(starts),)`` for a width of 1, otherwise ``(len(starts), width)``.
    """
    size = dtype.itemsize * width
    if len(starts) == 0:
        return np.empty((0,) if width == 1 else (0, width), dtype)
    every_byte: npt.NDArray[np.void] = np.ndarray(
        (len(data) - size + 1,), f"V{size}", data, strides=(1,)
    )
    values = every_byte[starts].view(dtype)
    return values if width == 1 else values.reshape(-1, width)


def gather_binary(
    data: npt.NDArray[np.uint8], starts: Positions, lengths: Positions, type_: pa.DataType
) -> pa.Array:
    """Copy byte strings out of `data`.

    Parameters
    ----------
    data : numpy.ndarray
        The shard, uint8.
    starts, lengths : numpy.ndarray
        Position and size in bytes of each value; positions ascend and values do not overlap.
    type_ : pyarrow.DataType
        ``binary()`` or ``string()``.

    Raises
    ------
    InvalidArgumentError
        If they are too large for one array.
    """
    if int(lengths.sum()) > _INT32_MAX:
        raise too_large("a column")
    count = len(starts)
    large = len(data) > _INT32_MAX
    bounds = np.empty(2 * count + 1, np.int64 if large else np.int32)
    bounds[0:-1:2] = starts
    bounds[1::2] = starts + lengths
    bounds[-1] = bounds[-2] if count else 0
    container = (
        (pa.large_string() if pa.types.is_string(type_) else pa.large_binary()) if large else type_
    )
    alternating = pa.Array.from_buffers(
        container, 2 * count, [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    )
    return alternating.take(pa.array(np.arange(0, 2 * count, 2))).cast(type_)
