"""The dtypes that numbers, and the elements of arrays, may have."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["ARRAY_CODES", "DTYPES", "DTYPE_CODES", "STRUCT_CODES", "array_encoding"]

#: What stands before the values of an array that states its own dtype, and the dtype.
ARRAY_CODES = {
    8: "uint8",
    9: "int8",
    16: "uint16",
    17: "int16",
    18: "float16",
    32: "uint32",
    33: "int32",
    34: "float32",
    64: "uint64",
    65: "int64",
    66: "float64",
}

#: dtype → the byte that stands for it.
DTYPE_CODES = {name: code for code, name in ARRAY_CODES.items()}

#: The dtypes by name, little-endian as they are stored.
DTYPES: dict[str, np.dtype[Any]] = {
    name: np.dtype(name).newbyteorder("<") for name in sorted(DTYPE_CODES)
}

#: What `struct` calls them.
STRUCT_CODES = {
    **dict(zip(("uint8", "uint16", "uint32", "uint64"), "BHIQ", strict=True)),
    **dict(zip(("int8", "int16", "int32", "int64"), "bhiq", strict=True)),
    **dict(zip(("float16", "float32", "float64"), "efd", strict=True)),
}


def array_encoding(dtype: np.dtype[np.generic], length: int | None) -> str:
    """Encoding of one-dimensional arrays, of one `length` in elements or (None) of any."""
    return f"ndarray:{dtype.name}" if not length else f"ndarray:{dtype.name}:{length}"
