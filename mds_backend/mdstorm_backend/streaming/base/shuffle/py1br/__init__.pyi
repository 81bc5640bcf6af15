"""streaming.base.shuffle.py1br: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend.mosaic.util import get_shuffle_py1br as get_shuffle_py1br

__all__ = [
    "get_shuffle_py1br",
]
