"""`nanoseconds`: dates and timestamps as tensors have them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdstorm_backend import errors
from mdstorm_backend.format.values.python_objects import beyond_nanoseconds
from mdstorm_backend.loaders.nulls import null_error

_NS_PER_US = 1000


def nanoseconds(array: npt.NDArray[Any], name: str, framework: str) -> npt.NDArray[np.int64]:
    """Return dates or timestamps as int64 nanoseconds since 1970 UTC.

    Raises
    ------
    EncodingRangeError
        If a value is before 1677 or after 2262.
    NullValueError
        If a value is NaT.
    """
    missing = int(np.isnat(array).sum())
    if missing:
        raise null_error(name, missing, framework)
    if array.dtype == "datetime64[ns]":
        return array.view(np.int64)
    if (worst := beyond_nanoseconds(array)) is not None:
        is_date = array.dtype == "datetime64[D]"
        kind, function = ("date", "unix_date") if is_date else ("timestamp", "unix_micros")
        raise errors.EncodingRangeError(
            f"column {name!r} holds the {kind} {worst}, which does not fit into nanoseconds (1677 "
            f"to 2262). Convert it to a number with Spark's {function}(…), or leave such rows out",
            column=name,
        )
    return _microseconds(array) * _NS_PER_US


def _microseconds(times: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    return times.astype("datetime64[us]", copy=False).view(np.int64)
