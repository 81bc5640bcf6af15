"""The namedtuple types of batches."""

from __future__ import annotations

import collections
from functools import lru_cache
from typing import Any

__all__ = ["row_type"]


@lru_cache(maxsize=256)
def row_type(type_name: str, names: tuple[str, ...]) -> Any:
    """Return the namedtuple type of some columns; equal columns share one type.

    Raises
    ------
    ValueError
        If a column name is no valid field name, as Python says it.
    """
    return collections.namedtuple(type_name, names)
