"""Convert dates and timestamps to nanoseconds, as Petastorm delivers them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdstorm_backend.errors import EncodingRangeError
from mdstorm_backend.loaders.nulls import null_error

_NS_PER_US = 1000
_LARGEST_US = np.iinfo(np.int64).max // _NS_PER_US


def nanoseconds(array: npt.NDArray[Any], name: str, framework: str) -> npt.NDArray[np.int64]:
    """Return dates or timestamps as int64 nanoseconds since 1970 UTC.

    Raises
    ------
    EncodingRangeError
        If one lies before 1677 or after 2262.
    NullValueError
        If one is NaT.
    """
    missing = int(np.isnat(array).sum())
    if missing:
        raise null_error(name, missing, framework)
    if array.dtype == "datetime64[ns]":
        return array.view(np.int64)
    if (worst := beyond_nanoseconds(array)) is not None:
        is_date = array.dtype == "datetime64[D]"
        kind, function = ("date", "unix_date") if is_date else ("timestamp", "unix_micros")
        raise EncodingRangeError(
            f"column {name!r} holds the {kind} {worst}, which does not fit into nanoseconds (1677 "
            f"to 2262). Make it a number in Spark by {function}(…), or leave such rows out",
            column=name,
        )
    return _microseconds(array) * _NS_PER_US


def beyond_nanoseconds(times: npt.NDArray[Any]) -> np.datetime64 | None:
    """Return the time farthest from 1970 if it lies before 1677 or after 2262, else None."""
    missing = np.isnat(times)
    present = times[~missing] if missing.any() else times.reshape(-1)
    numbers = _microseconds(present)
    if len(numbers) and max(int(numbers.max()), -int(numbers.min())) > _LARGEST_US:
        worst: np.datetime64 = present[np.abs(numbers).argmax()]
        return worst
    return None


def _microseconds(times: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    return times.astype("datetime64[us]", copy=False).view(np.int64)
