"""The named text and image datasets, which keep older defaults of `StreamingDataset`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mdstorm_backend.base import require
from mdstorm_backend.errors import InvalidArgumentError

require("torch")

from mdstorm_backend.loaders.torch.streaming_dataset import StreamingDataset  # noqa: E402

#: The older defaults, which determine the order of the samples.
_DEFAULTS = {"partition_algo": "orig", "shuffle_algo": "py1s", "shuffle_block_size": 1 << 18}
#: The label for tokens that should not be predicted.
_NO_LABEL = -100


class FormerDefaults(StreamingDataset):
    """A `StreamingDataset` with older defaults, the base class for the named datasets."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{**_DEFAULTS, **settings})


class TokenizedTexts(FormerDefaults):
    """A dataset whose column ``text`` is tokenized when a sample is read.

    Parameters
    ----------
    tokenizer_name : str
        Name of the tokenizer, for ``transformers.AutoTokenizer.from_pretrained``. A tokenizer
        without a padding token pads with its end-of-document token.
    max_seq_len : int
        Number of tokens in each sample; documents are truncated or padded.
    group_method : str
        ``"truncate"``, the only method.
    **settings
        Arguments of `StreamingDataset`.

    Raises
    ------
    InvalidArgumentError
        If `group_method` is anything else. A `ValueError`.
    MissingDependencyError
        If transformers is not installed.
    """

    def __init__(
        self, *, tokenizer_name: str, max_seq_len: int, group_method: str, **settings: Any
    ) -> None:
        if group_method != "truncate":
            raise InvalidArgumentError(
                f"group_method is {group_method!r}, but only group_method='truncate' exists: "
                "override get_item to group documents in a different way"
            )
        super().__init__(**settings)
        self.tokenizer_name = tokenizer_name
        self.max_seq_len = max_seq_len
        self.group_method = group_method
        self.tokenizer = require("transformers").AutoTokenizer.from_pretrained(tokenizer_name)
        if self.tokenizer.pad_token is None:
            self.tokenizer.pad_token = self.tokenizer.eos_token

    def get_item(self, sample_id: int, retry: int = 7) -> Any:
        """Return the tokenized text of sample `sample_id`."""
        return self._tokenize(super().get_item(sample_id, retry))

    def _tokenize(self, text_sample: dict[str, Any]) -> Any:
        return self.tokenizer(
            text_sample["text"],
            truncation=True,
            padding="max_length",
            max_length=self.max_seq_len,
        )


class StreamingC4(TokenizedTexts):
    """C4, the cleaned Common Crawl: tokenized text."""


class StreamingPile(TokenizedTexts):
    """The Pile: tokenized text."""


class StreamingEnWiki(FormerDefaults):
    """English Wikipedia, prepared for BERT with masked tokens.

    Columns are stored as the bytes of int32 arrays (float32 for ``masked_lm_weights``). A sample is
    a dict with the arrays ``input_ids``, ``token_type_ids``, ``attention_mask`` and ``labels``. A
    label is -100 unless its token is masked.

    Parameters
    ----------
    **settings
        Arguments of `StreamingDataset`.
    """

    def get_item(self, sample_id: int, retry: int = 7) -> Any:
        """Return sample `sample_id` as the input to a transformers model."""
        stored = super().get_item(sample_id, retry)
        tokens = np.frombuffer(stored["input_ids"], np.int32).copy()
        labels = np.full(len(tokens), _NO_LABEL)
        masked = np.frombuffer(stored["masked_lm_positions"], np.int32)
        labels[masked] = np.frombuffer(stored["masked_lm_ids"], np.int32)
        return {
            "input_ids": tokens,
            "token_type_ids": np.frombuffer(stored["segment_ids"], np.int32).copy(),
            "attention_mask": np.frombuffer(stored["input_mask"], np.int32).copy(),
            "labels": labels,
        }


class StandardTransform:
    """Applies one transform to the image and another to the label.

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
    """A dataset with images in column ``x`` and labels in column ``y``; samples are pairs.

    Parameters
    ----------
    transforms : callable, optional
        Called with image and label; returns both.
    transform, target_transform : callable, optional
        Alternatives to `transforms`: see `StandardTransform`.
    **settings
        Arguments of `StreamingDataset`.

    Raises
    ------
    InvalidArgumentError
        If `transforms` is combined with one of its alternatives. A `ValueError`.
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
        """Return the transformed image and label of sample `sample_id`."""
        sample = super().get_item(sample_id, retry)
        return self.transforms(sample["x"], sample["y"])


class StreamingCIFAR10(StreamingVisionDataset):
    """CIFAR-10: images and their class numbers."""


class StreamingImageNet(StreamingVisionDataset):
    """ImageNet: images and their class numbers."""


class StreamingADE20K(FormerDefaults):
    """ADE20K: images in column ``x``, their segmentation in column ``y``; samples are pairs.

    Parameters
    ----------
    joint_transform : callable, optional
        Called first, with the pair; returns a pair.
    transform, target_transform : callable, optional
        Called with the image and its segmentation, respectively.
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
        """Return the transformed image and segmentation of sample `sample_id`."""
        sample = super().get_item(sample_id, retry)
        pair = sample["x"], sample["y"]
        x, y = self.joint_transform(pair) if self.joint_transform else pair
        if self.transform:
            x = self.transform(x)
        return x, self.target_transform(y) if self.target_transform else y


class StreamingCOCO(FormerDefaults):
    """COCO: images with the bounding boxes and labels of the objects in them.

    A sample consists of the image (RGB), its number, its height and width, the boxes and their
    labels, from columns ``img``, ``img_id``, ``htot``, ``wtot``, ``bbox_sizes`` and
    ``bbox_labels``.

    Parameters
    ----------
    transform : callable, optional
        Called with the image, the pair of height and width, the boxes and the labels; returns all
        four.
    **settings
        Arguments of `StreamingDataset`.
    """

    def __init__(
        self, *, transform: Callable[[Any, Any, Any, Any], Any] | None = None, **settings: Any
    ) -> None:
        super().__init__(**settings)
        self.transform = transform

    def get_item(self, sample_id: int, retry: int = 7) -> Any:
        """Return the transformed sample `sample_id`."""
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
