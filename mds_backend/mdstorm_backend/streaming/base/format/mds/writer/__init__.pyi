"""streaming.base.format.mds.writer: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend import MDSWriter as MDSWriter

__all__ = [
    "MDSWriter",
]
