"""streaming.base.format.index: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend.mosaic.util import get_index_basename as get_index_basename

__all__ = [
    "get_index_basename",
]
