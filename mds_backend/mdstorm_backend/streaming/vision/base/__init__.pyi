"""streaming.vision.base: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend.mosaic.named_datasets import StandardTransform as StandardTransform
from mdstorm_backend.mosaic.named_datasets import StreamingVisionDataset as StreamingVisionDataset

__all__ = [
    "StandardTransform",
    "StreamingVisionDataset",
]
