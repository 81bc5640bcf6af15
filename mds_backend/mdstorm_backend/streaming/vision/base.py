"""Images with labels: the mirror of ``streaming.vision.base``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mdstorm_backend.base import require
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.streaming.base.dataset import StreamingDataset
from mdstorm_backend.streaming.base.former_defaults import FORMER_DEFAULTS

__all__ = ["StandardTransform", "StreamingVisionDataset"]


class StandardTransform:
    """A transform of the image and one of the label, called together.

    Parameters
    ----------
    transform : callable, optional
        Called with the image; by default torchvision's ``to_tensor``.
    target_transform : callable, optional
        Called with the label.
    """

    def __init__(
        self,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
    ) -> None:
        self.transform = transform
        self.target_transform = target_transform

    def __call__(self, x: Any, y: Any) -> tuple[Any, Any]:
        """Return the transformed image and label."""
        to_tensor = self.transform or _to_tensor
        return to_tensor(x), self.target_transform(y) if self.target_transform else y


class StreamingVisionDataset(StreamingDataset):
    """A dataset of images in the column ``x``, with labels in ``y``; samples are pairs.

    Parameters
    ----------
    transforms : callable, optional
        Called with image and label; returns both.
    transform, target_transform : callable, optional
        Instead: see `StandardTransform`.
    **settings
        Arguments of `StreamingDataset`.

    Raises
    ------
    InvalidArgumentError
        If `transforms` and one of the others are given. A `ValueError`.
    """

    def __init__(
        self,
        *,
        transforms: Callable[[Any, Any], Any] | None = None,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        **settings: Any,
    ) -> None:
        if transforms and (transform or target_transform):
            raise InvalidArgumentError(
                "Only transforms or transform/target_transform can be passed as an argument"
            )
        super().__init__(**{**FORMER_DEFAULTS, **settings})
        self.transform = transform
        self.target_transform = target_transform
        self.transforms = transforms or StandardTransform(transform, target_transform)

    def get_item(self, sample_id: int, retry: int = 7) -> Any:
        """Return image and label of sample `sample_id`, transformed."""
        sample = super().get_item(sample_id, retry)
        return self.transforms(sample["x"], sample["y"])


def _to_tensor(image: Any) -> Any:
    require("torchvision")
    from torchvision.transforms.functional import to_tensor

    return to_tensor(image)
