"""The dtypes of numbers and of array elements."""

from __future__ import annotations

from typing import Any

import numpy as np

#: dtype → the byte that stands before the values of an array that states its own, and what
#: `struct` calls a number.
_CODES = {
    "uint8": (8, "B"),
    "int8": (9, "b"),
    "uint16": (16, "H"),
    "int16": (17, "h"),
    "float16": (18, "e"),
    "uint32": (32, "I"),
    "int32": (33, "i"),
    "float32": (34, "f"),
    "uint64": (64, "Q"),
    "int64": (65, "q"),
    "float64": (66, "d"),
}
DTYPE_CODES = {name: code for name, (code, _) in _CODES.items()}
STRUCT_CODES = {name: code for name, (_, code) in _CODES.items()}

#: The byte → its dtype.
ARRAY_CODES = {code: name for name, code in DTYPE_CODES.items()}

#: The dtypes by name, little-endian as they are stored.
DTYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(name).newbyteorder("<") for name in sorted(_CODES)
}


def array_encoding(dtype: np.dtype[np.generic], shape: tuple[int, ...] | None) -> str:
    """Encoding of arrays of one `shape` or (None) of any."""
    stated = ",".join(map(str, shape or ()))
    return f"ndarray:{dtype.name}:{stated}" if stated else f"ndarray:{dtype.name}"
