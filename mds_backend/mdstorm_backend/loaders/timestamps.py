"""Dates and timestamps as nanoseconds, the unit in which Petastorm delivers them."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from mdstorm_backend.loaders.nulls import null_error

__all__ = ["nanoseconds"]

_NS_PER_US = 1000
_LARGEST_US = np.iinfo(np.int64).max // _NS_PER_US


def nanoseconds(array: npt.NDArray[Any], name: str, framework: str) -> npt.NDArray[np.int64]:
    """Return timestamps as int64 nanoseconds since 1970 UTC.

    Raises
    ------
    OverflowError
        If one lies before 1677 or after 2262.
    NullValueError
        If one is NaT.
    """
    missing = int(np.isnat(array).sum())
    if missing:
        raise null_error(name, missing, framework)
    if array.dtype == "datetime64[ns]":
        return array.view(np.int64)
    numbers = array.astype("datetime64[us]").view(np.int64)
    if len(numbers) and max(int(numbers.max()), -int(numbers.min())) > _LARGEST_US:
        worst = array.reshape(-1)[np.abs(numbers.reshape(-1)).argmax()]
        raise OverflowError(
            f"column {name!r} holds the timestamp {worst}, which does not fit into nanoseconds "
            "(1677 to 2262). Read it as a number with CAST(… AS LONG), or leave such rows out"
        )
    return numbers * _NS_PER_US
