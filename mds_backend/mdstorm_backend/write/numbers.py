"""Fixed-size values in their stored form."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["to_numpy"]


def to_numpy(values: pa.Array, dtype: np.dtype[np.generic]) -> npt.NDArray[Any]:
    """Stored form of fixed-size values: nulls become NaN in floats and 0 elsewhere.

    Floats are cast as Spark casts them: to the nearest, overflow to infinity.
    """
    if pa.types.is_boolean(values.type):
        values = values.cast(pa.uint8())
    elif pa.types.is_temporal(values.type):
        values = values.view(pa.int32() if pa.types.is_date32(values.type) else pa.int64())
    if values.null_count:
        values = pc.fill_null(values, float("nan") if pa.types.is_floating(values.type) else 0)
    with np.errstate(over="ignore"):
        return np.asarray(values).astype(dtype, copy=False)
