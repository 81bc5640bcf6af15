"""streaming.vision.ade20k: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend.mosaic.named_datasets import StreamingADE20K as StreamingADE20K

__all__ = [
    "StreamingADE20K",
]
