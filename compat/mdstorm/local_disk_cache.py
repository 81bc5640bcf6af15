"""A cache on the local disk: the mirror of ``petastorm.local_disk_cache``."""

from __future__ import annotations

from mdstorm._petastorm_names import other_names
from mdstorm._readers.local_disk_cache import (
    LocalDiskCache,
)

__all__ = [
    "LocalDiskCache",
]

__getattr__ = other_names(__name__)
