"""Map Arrow types to NumPy dtypes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa


def arrow_type_of(dtype: np.dtype[Any]) -> pa.DataType:
    """Return the Arrow type of a NumPy dtype, in whatever byte order."""
    return pa.from_numpy_dtype(dtype.newbyteorder("="))


def is_number(type_: pa.DataType) -> bool:
    """Whether values are integers, floating-point numbers or booleans."""
    types = pa.types
    return bool(types.is_integer(type_) or types.is_floating(type_) or types.is_boolean(type_))
