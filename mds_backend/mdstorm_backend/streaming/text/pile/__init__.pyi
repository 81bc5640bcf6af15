"""streaming.text.pile: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend.mosaic.named_datasets import StreamingPile as StreamingPile

__all__ = [
    "StreamingPile",
]
