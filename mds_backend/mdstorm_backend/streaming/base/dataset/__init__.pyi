"""streaming.base.dataset: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend import StreamingDataset as StreamingDataset

__all__ = [
    "StreamingDataset",
]
