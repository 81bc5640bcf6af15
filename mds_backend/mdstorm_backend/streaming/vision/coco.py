"""The mirror of ``streaming.vision.coco``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mdstorm_backend.streaming.base.dataset import StreamingDataset
from mdstorm_backend.streaming.base.former_defaults import FORMER_DEFAULTS

__all__ = ["StreamingCOCO"]


class StreamingCOCO(StreamingDataset):
    """COCO: images with the boxes and labels of what is on them.

    A sample is the image (RGB), its number, its height and width, the boxes and their labels: the
    columns ``img``, ``img_id``, ``htot``, ``wtot``, ``bbox_sizes`` and ``bbox_labels``.

    Parameters
    ----------
    transform : callable, optional
        Called with the image, the pair of height and width, the boxes and the labels; returns all.
    **settings
        Arguments of `StreamingDataset`.
    """

    def __init__(
        self, *, transform: Callable[[Any, Any, Any, Any], Any] | None = None, **settings: Any
    ) -> None:
        super().__init__(**{**FORMER_DEFAULTS, **settings})
        self.transform = transform

    def get_item(self, sample_id: int, retry: int = 7) -> Any:
        """Return sample `sample_id`, transformed."""
        stored = super().get_item(sample_id, retry)
        found = (
            stored["img"].convert("RGB"),
            (stored["htot"], stored["wtot"]),
            stored["bbox_sizes"],
            stored["bbox_labels"],
        )
        image, size, boxes, labels = self.transform(*found) if self.transform else found
        return image, stored["img_id"], size, boxes, labels
