"""Datasets of images."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mdstorm_backend.base import require
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.mosaic.former_defaults import FormerDefaults


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


class StreamingVisionDataset(FormerDefaults):
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
        super().__init__(**settings)
        self.transform = transform
        self.target_transform = target_transform
        self.transforms = transforms or StandardTransform(transform, target_transform)

    def get_item(self, sample_id: int, retry: int = 7) -> Any:
        """Return image and label of sample `sample_id`, transformed."""
        sample = super().get_item(sample_id, retry)
        return self.transforms(sample["x"], sample["y"])


class StreamingCIFAR10(StreamingVisionDataset):
    """CIFAR-10: images and the numbers of their classes."""


class StreamingImageNet(StreamingVisionDataset):
    """ImageNet: images and the numbers of their classes."""


class StreamingADE20K(FormerDefaults):
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
        super().__init__(**settings)
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


class StreamingCOCO(FormerDefaults):
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
        super().__init__(**settings)
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


def _to_tensor(image: Any) -> Any:
    require("torchvision")
    from torchvision.transforms.functional import to_tensor

    return to_tensor(image)
