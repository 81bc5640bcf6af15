"""Arrays of sample ids in the smallest dtype that holds them."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError

IntArray: TypeAlias = npt.NDArray[np.integer[Any]]
Ids: TypeAlias = npt.NDArray[np.int64]

#: Elements to process at a time: few enough to stay in the processor's cache.
CHUNK = 1 << 18


def index_dtype(size: int) -> np.dtype[np.signedinteger[Any]]:
    """Smallest dtype for the ids of `size` samples: int32 up to two billion."""
    return np.dtype(np.int32 if size <= np.iinfo(np.int32).max else np.int64)


def chunks(size: int, step: int) -> Iterator[slice]:
    """Cut the range of `size` elements into slices of at most `step`; below 1 that counts as 1."""
    step = max(step, 1)
    for begin in range(0, size, step):
        yield slice(begin, min(begin + step, size))


def as_integer(name: str, value: object, at_least: int) -> int:
    """Convert an integer of any type except bool.

    Raises
    ------
    ArgumentTypeError
        If it is not an integer.
    InvalidArgumentError
        If it is less than `at_least`.
    """
    try:
        if isinstance(value, (bool, np.bool_)):
            raise TypeError
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise ArgumentTypeError(f"{name} must be an integer, found {value!r}") from None
    if number < at_least:
        raise InvalidArgumentError(f"{name} must be at least {at_least}, found {number}")
    return number
