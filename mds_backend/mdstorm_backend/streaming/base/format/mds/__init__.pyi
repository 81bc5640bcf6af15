"""streaming.base.format.mds: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend import MDSWriter as MDSWriter
from mdstorm_backend.streaming.base.format.mds import reader as reader
from mdstorm_backend.streaming.base.format.mds import writer as writer
from mdstorm_backend.streaming.base.format.mds import encodings as encodings

__all__ = [
    "MDSWriter",
]
