"""The mirror of ``streaming.vision.imagenet``."""

from __future__ import annotations

from mdstorm_backend.streaming.vision.base import StreamingVisionDataset

__all__ = ["StreamingImageNet"]


class StreamingImageNet(StreamingVisionDataset):
    """ImageNet: images and the numbers of their classes."""
