"""streaming.base.format: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend import MDSWriter as MDSWriter
from mdstorm_backend.mosaic.util import get_index_basename as get_index_basename
from mdstorm_backend.streaming.base.format import index as index
from mdstorm_backend.streaming.base.format import mds as mds

__all__ = [
    "MDSWriter",
    "get_index_basename",
]
