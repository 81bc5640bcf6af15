"""streaming.text.c4: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend.mosaic.named_datasets import StreamingC4 as StreamingC4

__all__ = [
    "StreamingC4",
]
