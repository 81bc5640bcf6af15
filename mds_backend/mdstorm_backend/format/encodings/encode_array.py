"""NumPy arrays of any number of dimensions.

A value is ``[code of the dtype][header of the shape][numbers]``; what the encoding fixes is left
out. The header is a byte ``dimensions << 2 | w``, then the dimensions in ``1 << w`` bytes each. An
array without elements is stored like any other, which other readers decode as well.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from mdstorm_backend.format.encodings.dtypes import DTYPE_CODES
from mdstorm_backend.format.encodings.encode_numbers import check_no_mask

__all__ = ["array_encoder"]

#: The byte has six bits for the number of dimensions.
_MAX_DIMENSIONS = 63
#: Lengths of one byte.
_SHORT = 256
_IS_LITTLE_ENDIAN = sys.byteorder == "little"


def array_encoder(
    dtype: np.dtype[np.generic] | None, shape: tuple[int, ...] | None
) -> Callable[[Any], bytes]:
    """Return the function that encodes one array.

    `dtype` and `shape` are what the encoding fixes, None where it does not. The function raises
    TypeError if the value is no NumPy array, and ValueError if its dtype or its shape is not that
    of the encoding, or has no form in the format.
    """
    # What stands before the shape, by the dtypes that need no second look.
    prefixes = {
        np.dtype(name): b"" if dtype is not None else bytes([code])
        for name, code in DTYPE_CODES.items()
        if dtype is None or name == dtype.name
    }
    if not _IS_LITTLE_ENDIAN:
        prefixes = {}

    def encode(value: Any) -> bytes:
        prefix = prefixes.get(value.dtype) if type(value) is np.ndarray else None
        if prefix is None:
            value = _checked(dtype, value)
            prefix = b"" if dtype is not None else bytes([DTYPE_CODES[value.dtype.name]])
        found: tuple[int, ...] = value.shape
        if shape is None:
            return prefix + _shape_header(found) + bytes(value.tobytes())
        if found != shape:
            raise ValueError(f"its shape is {found} and must be {shape}")
        return bytes(value.tobytes())

    return encode


def _checked(dtype: np.dtype[np.generic] | None, value: Any) -> npt.NDArray[Any]:
    """Return the array in little-endian order."""
    if not isinstance(value, (np.ndarray, np.generic)):
        raise TypeError(
            f"it is of type {type(value).__name__} and must be a NumPy array: use np.asarray(…)"
        )
    check_no_mask(value)
    stored, wanted = value.dtype.name, None if dtype is None else dtype.name
    if stored not in DTYPE_CODES:
        raise ValueError(f"its dtype {stored} is none of {', '.join(sorted(DTYPE_CODES))}")
    if wanted not in (None, stored):
        raise ValueError(f"its dtype is {stored} and must be {wanted}: use .astype({wanted!r})")
    return np.asarray(value.astype(value.dtype.newbyteorder("<"), copy=False))


def _shape_header(shape: tuple[int, ...]) -> bytes:
    if len(shape) == 1 and shape[0] < _SHORT:
        return _SHORT_HEADERS[shape[0]]
    if not shape:
        raise ValueError("it is a scalar and must have at least one dimension")
    if len(shape) > _MAX_DIMENSIONS:
        raise ValueError(f"it has {len(shape)} dimensions, and {_MAX_DIMENSIONS} is the most")
    largest = max(shape)
    width = next(w for w in range(4) if largest < 1 << (8 << w))
    dimensions = b"".join([size.to_bytes(1 << width, "little") for size in shape])
    return bytes([len(shape) << 2 | width]) + dimensions


_SHORT_HEADERS = [bytes([1 << 2, length]) for length in range(_SHORT)]
