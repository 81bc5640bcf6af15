"""streaming.base.spanner: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend.datasets.spanner import Spanner as Spanner

__all__ = [
    "Spanner",
]
