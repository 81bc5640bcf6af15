"""Numbers of a fixed size."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np

__all__ = ["check_no_mask", "encode_number"]


def encode_number(dtype: np.dtype[np.generic], value: Any) -> bytes:
    """Encode anything that stands for one number: a number, numeric text, an array of one element.

    ``None`` is NaN among floating-point numbers, as for the format's own writer. A float is rounded
    to the nearest of the dtype; everything else must fit exactly.

    Raises
    ------
    TypeError
        If it stands for no number.
    OverflowError
        If it is out of the range of the dtype.
    ValueError
        If a fraction, an infinity or NaN is to become an integer.
    """
    number = _plain(value)
    if dtype.kind == "f":
        return _encode_float(dtype, math.nan if number is None else number)
    return _encode_int(dtype, number)


def check_no_mask(value: Any) -> None:
    """Raise ValueError if `value` is a NumPy array in which elements are masked."""
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise ValueError(
            "it has masked elements, which the format has no word for: use .filled(…), or store "
            "the mask as a column of its own"
        )


def _plain(value: Any) -> Any:
    """Python number (or text, or other object) behind whatever NumPy takes for one number."""
    check_no_mask(value)
    array = np.asarray(value)
    if array.size != 1:
        raise TypeError(f"it is {array.size} values and must be one number")
    if array.dtype.kind in "mM":
        if np.isnat(array).any():
            raise ValueError("it is no time at all (NaT)")
        array = array.view(np.int64)
    return array.reshape(-1)[0] if array.dtype == object else array.item()


def _encode_float(dtype: np.dtype[np.generic], number: Any) -> bytes:
    if isinstance(number, complex) or not (hasattr(number, "__float__") or isinstance(number, str)):
        raise TypeError(f"it is of type {type(number).__name__} and must be a number")
    exact = float(number)
    with np.errstate(over="ignore"):
        stored = np.array(exact, dtype)
    if np.isinf(stored) and not math.isinf(exact):
        raise OverflowError(f"it is out of the range of {dtype.name}")
    return stored.tobytes()


def _encode_int(dtype: np.dtype[np.generic], number: Any) -> bytes:
    limits = np.iinfo(dtype)  # type: ignore[type-var]
    whole = _whole(number)
    if not limits.min <= whole <= limits.max:
        raise OverflowError(f"{dtype.name} goes from {limits.min} to {limits.max}")
    return np.array(whole, dtype).tobytes()


def _whole(number: Any) -> int:
    if isinstance(number, str):
        return int(number)
    if hasattr(number, "__index__"):
        return operator.index(number)
    if not hasattr(number, "__float__"):
        raise TypeError(f"it is of type {type(number).__name__} and must be an integer")
    try:
        whole = int(number)
    except (OverflowError, ValueError) as error:  # an infinity, NaN
        raise ValueError("it is no integer") from error
    if whole != number:
        raise ValueError("it is no integer: round it first")
    return whole
