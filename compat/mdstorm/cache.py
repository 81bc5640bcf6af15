"""Caches for readers: the mirror of ``petastorm.cache``."""

from __future__ import annotations

from mdstorm._readers.cache_base import (
    CacheBase,
    NullCache,
)

__all__ = [
    "CacheBase",
    "NullCache",
]
