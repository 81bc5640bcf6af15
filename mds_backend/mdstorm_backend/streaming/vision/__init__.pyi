"""streaming.vision: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend.mosaic.named_datasets import StreamingADE20K as StreamingADE20K
from mdstorm_backend.mosaic.named_datasets import StreamingCIFAR10 as StreamingCIFAR10
from mdstorm_backend.mosaic.named_datasets import StreamingCOCO as StreamingCOCO
from mdstorm_backend.mosaic.named_datasets import StreamingImageNet as StreamingImageNet
from mdstorm_backend.streaming.vision import ade20k as ade20k
from mdstorm_backend.streaming.vision import base as base
from mdstorm_backend.streaming.vision import cifar10 as cifar10
from mdstorm_backend.streaming.vision import coco as coco
from mdstorm_backend.streaming.vision import imagenet as imagenet

__all__ = [
    "StreamingADE20K",
    "StreamingCIFAR10",
    "StreamingCOCO",
    "StreamingImageNet",
]
