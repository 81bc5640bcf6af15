"""How much the benchmarks measure, and how little where they are only started.

With `MDSTORM_BENCHMARK_SMALLEST=1`, which tests set, each program runs with the smallest sizes, and
measures mdstorm alone, so that it needs no other library. Its figures then say nothing.
"""

from __future__ import annotations

import os
from typing import TypeVar

SMALLEST = os.environ.get("MDSTORM_BENCHMARK_SMALLEST") == "1"

_Size = TypeVar("_Size", int, float)


def size(usual: _Size, smallest: _Size) -> _Size:
    """Return the size that applies to this run."""
    return smallest if SMALLEST else usual
