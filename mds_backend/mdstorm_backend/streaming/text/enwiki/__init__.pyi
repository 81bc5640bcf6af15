"""streaming.text.enwiki: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend.mosaic.named_datasets import StreamingEnWiki as StreamingEnWiki

__all__ = [
    "StreamingEnWiki",
]
