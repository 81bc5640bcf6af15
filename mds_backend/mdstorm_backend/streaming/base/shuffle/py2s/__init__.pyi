"""streaming.base.shuffle.py2s: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend.mosaic.util import get_shuffle_py2s as get_shuffle_py2s

__all__ = [
    "get_shuffle_py2s",
]
