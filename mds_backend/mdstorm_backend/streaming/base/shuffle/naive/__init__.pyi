"""streaming.base.shuffle.naive: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend.mosaic.util import get_shuffle_naive as get_shuffle_naive

__all__ = [
    "get_shuffle_naive",
]
