"""The mirror of ``streaming.vision.cifar10``."""

from __future__ import annotations

from mdstorm_backend.streaming.vision.base import StreamingVisionDataset

__all__ = ["StreamingCIFAR10"]


class StreamingCIFAR10(StreamingVisionDataset):
    """CIFAR-10: images and the numbers of their classes."""
