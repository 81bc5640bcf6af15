"""streaming.base.shuffle.py1e: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend.mosaic.util import get_shuffle_py1e as get_shuffle_py1e

__all__ = [
    "get_shuffle_py1e",
]
