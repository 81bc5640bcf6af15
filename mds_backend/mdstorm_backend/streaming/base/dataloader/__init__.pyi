"""streaming.base.dataloader: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend import StreamingDataLoader as StreamingDataLoader

__all__ = [
    "StreamingDataLoader",
]
