"""Map Arrow types to NumPy dtypes and back, without pandas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

_NUMBERS = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64"),
)
_DTYPES = {pa.from_numpy_dtype(np.dtype(name)): np.dtype(name) for name in _NUMBERS}


def numpy_dtype(type_: pa.DataType) -> np.dtype[Any]:
    """Return the dtype that holds values of an Arrow type.

    Before pyarrow 26 its own ``to_pandas_dtype`` imports pandas for every type.
    """
    found = _DTYPES.get(type_)
    return np.dtype(type_.to_pandas_dtype()) if found is None else found


def arrow_type_of(dtype: np.dtype[Any]) -> pa.DataType:
    """Return the Arrow type of a NumPy dtype, in whatever byte order."""
    return pa.from_numpy_dtype(dtype.newbyteorder("="))


def is_number(type_: pa.DataType) -> bool:
    """Whether values are integers, floating-point numbers or booleans."""
    types = pa.types
    return bool(types.is_integer(type_) or types.is_floating(type_) or types.is_boolean(type_))
