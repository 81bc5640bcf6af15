"""Check whether a value is an integer."""

from __future__ import annotations

from numbers import Integral
from typing import TypeGuard


def is_integer(value: object) -> TypeGuard[int]:
    """Whether it is an integer of Python or NumPy, and no boolean."""
    return isinstance(value, (int, Integral)) and not isinstance(value, bool)
