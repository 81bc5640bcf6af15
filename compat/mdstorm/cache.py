"""Caches for reader results, mirroring ``petastorm.cache``."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

__all__ = [
    "CacheBase",
    "NullCache",
]


class CacheBase(abc.ABC):
    """Base class for caches, which store values by key."""

    @abc.abstractmethod
    def get(self, key: str, fill_cache_func: Callable[[], Any]) -> Any:
        """Return the value for a key; if there is none, call the function and store its result."""

    def cleanup(self) -> None:  # noqa: B027  # not every cache has something to remove
        """Remove all values."""


class NullCache(CacheBase):
    """A cache that stores nothing."""

    def get(self, key: str, fill_cache_func: Callable[[], Any]) -> Any:
        """Call the function and return its result."""
        return fill_cache_func()
