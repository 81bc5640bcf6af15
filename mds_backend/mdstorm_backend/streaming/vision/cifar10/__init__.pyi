"""streaming.vision.cifar10: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend.mosaic.named_datasets import StreamingCIFAR10 as StreamingCIFAR10

__all__ = [
    "StreamingCIFAR10",
]
