"""streaming.vision.imagenet: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend.mosaic.named_datasets import StreamingImageNet as StreamingImageNet

__all__ = [
    "StreamingImageNet",
]
