"""Make glibc reuse freed memory: `keep_freed_memory`."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable
from functools import lru_cache
from typing import Any

#: Parameters of glibc's ``mallopt``.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
#: Blocks of at least this size are mapped separately. This is the highest threshold that all
#: versions of glibc accept; most blocks in a pass are 8 MiB.
_MAPPED_FROM = 32 << 20
#: Freed bytes that each arena of the allocator may keep. A pass has about four blocks at a time.
_KEPT = 64 << 20
#: Environment variables with which users set the thresholds.
_ENVIRONMENT = ("MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_")


def keep_freed_memory() -> None:
    """Make glibc keep the memory of freed blocks for later blocks.

    By default glibc returns freed blocks of 128 KiB or more to the system. The pages of each new
    block are then faulted in again, which takes as long as filling them. Call this when a pass
    begins, because other libraries, such as TensorFlow, lower the thresholds of the process.
    Thresholds that users have set in the environment are not changed.
    """
    mallopt = _mallopt()
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _MAPPED_FROM)
        mallopt(_TRIM_THRESHOLD, _KEPT)


@lru_cache(maxsize=1)
def _mallopt() -> Callable[[int, int], Any] | None:
    """Return ``mallopt``, or None if there is none or users have set the thresholds."""
    is_set = any(name in os.environ for name in _ENVIRONMENT)
    if is_set or "glibc.malloc." in os.environ.get("GLIBC_TUNABLES", ""):
        return None
    mallopt: Callable[[int, int], Any] | None = None
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    return mallopt
