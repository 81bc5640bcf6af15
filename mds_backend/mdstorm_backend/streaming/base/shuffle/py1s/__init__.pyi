"""streaming.base.shuffle.py1s: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend.mosaic.util import get_shuffle_py1s as get_shuffle_py1s

__all__ = [
    "get_shuffle_py1s",
]
