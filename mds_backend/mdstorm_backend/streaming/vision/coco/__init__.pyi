"""streaming.vision.coco: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend.mosaic.named_datasets import StreamingCOCO as StreamingCOCO

__all__ = [
    "StreamingCOCO",
]
