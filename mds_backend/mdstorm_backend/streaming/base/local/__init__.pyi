"""streaming.base.local: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend import LocalDataset as LocalDataset

__all__ = [
    "LocalDataset",
]
