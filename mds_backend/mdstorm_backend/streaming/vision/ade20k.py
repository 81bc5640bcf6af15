"""The mirror of ``streaming.vision.ade20k``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mdstorm_backend.streaming.base.dataset import StreamingDataset
from mdstorm_backend.streaming.base.former_defaults import FORMER_DEFAULTS

__all__ = ["StreamingADE20K"]


class StreamingADE20K(StreamingDataset):
    """ADE20K: images in the column ``x``, their segmentation in ``y``; samples are pairs.

    Parameters
    ----------
    joint_transform : callable, optional
        Called first, with the pair; returns a pair.
    transform, target_transform : callable, optional
        Called with the image, and with its segmentation.
    **settings
        Arguments of `StreamingDataset`.
    """

    def __init__(
        self,
        *,
        joint_transform: Callable[[tuple[Any, Any]], tuple[Any, Any]] | None = None,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        **settings: Any,
    ) -> None:
        super().__init__(**{**FORMER_DEFAULTS, **settings})
        self.joint_transform = joint_transform
        self.transform = transform
        self.target_transform = target_transform

    def get_item(self, sample_id: int, retry: int = 7) -> Any:
        """Return image and segmentation of sample `sample_id`, transformed."""
        sample = super().get_item(sample_id, retry)
        pair = sample["x"], sample["y"]
        x, y = self.joint_transform(pair) if self.joint_transform else pair
        if self.transform:
            x = self.transform(x)
        return x, self.target_transform(y) if self.target_transform else y
