"""streaming.base.spanner: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend.datasets.sample_access import Spanner as Spanner

__all__ = [
    "Spanner",
]
