"""NumPy arrays of any number of dimensions.

A value is ``[code of the dtype][header of the shape][numbers]``; what the encoding fixes is left
out. The header is a byte ``dimensions << 2 | w``, then the dimensions in ``1 << w`` bytes each. An
array without elements is stored like any other, which other readers decode as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mdstorm_backend.encodings import ARRAY_CODES

__all__ = ["DTYPE_CODES", "encode_array"]

#: dtype → the byte that stands for it.
DTYPE_CODES = {name: code for code, name in ARRAY_CODES.items()}

#: The byte has six bits for the number of dimensions.
_MAX_DIMENSIONS = 63


def encode_array(
    dtype: np.dtype[np.generic] | None, shape: tuple[int, ...] | None, value: Any
) -> bytes:
    """Encode an array; `dtype` and `shape` are what the encoding fixes, None where it does not.

    Raises
    ------
    TypeError
        If the value is no NumPy array.
    ValueError
        If its dtype or its shape is not that of the encoding, or has no form in the format.
    """
    if not isinstance(value, (np.ndarray, np.generic)):
        raise TypeError(
            f"it is a {type(value).__name__} and must be a NumPy array: use np.asarray(…)"
        )
    stored, wanted = value.dtype.name, None if dtype is None else dtype.name
    if stored not in DTYPE_CODES:
        raise ValueError(f"its dtype {stored} is none of {', '.join(sorted(DTYPE_CODES))}")
    if wanted not in (None, stored):
        raise ValueError(f"its dtype is {stored} and must be {wanted}: use .astype({wanted!r})")
    if value.ndim == 0:
        raise ValueError("it is a scalar and must have at least one dimension")
    if shape is not None and value.shape != shape:
        raise ValueError(f"its shape is {value.shape} and must be {shape}")
    numbers = value.astype(value.dtype.newbyteorder("<"), copy=False).tobytes()
    if shape is not None:
        return numbers
    header = _shape_header(value.shape)
    return (b"" if dtype is not None else bytes([DTYPE_CODES[stored]])) + header + numbers


def _shape_header(shape: tuple[int, ...]) -> bytes:
    if len(shape) > _MAX_DIMENSIONS:
        raise ValueError(f"it has {len(shape)} dimensions, and {_MAX_DIMENSIONS} is the most")
    width = int(np.searchsorted([1 << 8, 1 << 16, 1 << 32], max(shape), side="right"))
    return bytes([len(shape) << 2 | width]) + np.array(shape, f"<u{1 << width}").tobytes()
