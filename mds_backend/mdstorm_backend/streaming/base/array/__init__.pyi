"""streaming.base.array: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend.datasets.sample_access import Array as Array

__all__ = [
    "Array",
]
