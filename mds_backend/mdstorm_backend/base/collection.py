"""`no_collection`: create many objects without garbage collection."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_collection() -> Iterator[None]:
    """Disable the garbage collector while creating objects that all stay alive.

    Its repeated passes would take as long as parsing an index with many shards.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
