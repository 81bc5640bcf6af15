"""Datasets of images: the mirror of ``streaming.vision``."""

from __future__ import annotations

from mdstorm_backend.streaming.vision.ade20k import StreamingADE20K
from mdstorm_backend.streaming.vision.cifar10 import StreamingCIFAR10
from mdstorm_backend.streaming.vision.coco import StreamingCOCO
from mdstorm_backend.streaming.vision.imagenet import StreamingImageNet

__all__ = ["StreamingADE20K", "StreamingCIFAR10", "StreamingCOCO", "StreamingImageNet"]
