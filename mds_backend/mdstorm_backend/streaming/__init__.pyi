"""streaming: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend import LocalDataset as LocalDataset
from mdstorm_backend import MDSWriter as MDSWriter
from mdstorm_backend import Stream as Stream
from mdstorm_backend import StreamingDataLoader as StreamingDataLoader
from mdstorm_backend import StreamingDataset as StreamingDataset
from mdstorm_backend.streaming import text as text
from mdstorm_backend.streaming import vision as vision
from mdstorm_backend.streaming import _version as _version
from mdstorm_backend.streaming import base as base

__version__: str

__all__ = [
    "LocalDataset",
    "MDSWriter",
    "Stream",
    "StreamingDataLoader",
    "StreamingDataset",
    "text",
    "vision",
]
