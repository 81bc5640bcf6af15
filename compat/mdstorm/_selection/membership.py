"""Test whether a value is in a collection, across NumPy and Python types."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np


def as_searched(values: Iterable[Any]) -> set[Any] | list[Any]:
    """Return the values as what is searched fastest."""
    found = [_plain(value) for value in values]
    try:
        return set(found)
    except TypeError:
        return found


def is_among(value: Any, values: set[Any] | list[Any]) -> bool:
    """Whether one of `values` equals a value."""
    if _plain(value) in values:
        return True
    # NumPy's dates and times equal Python's, but their hashes differ.
    return isinstance(value, np.datetime64) and value.item() in values


def _plain(value: Any) -> Any:
    """Return a number of NumPy as one of Python, which can be compared with decimals."""
    return value.item() if isinstance(value, (np.number, np.bool_)) else value
