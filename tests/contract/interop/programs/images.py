"""Images: transforms in subclasses, labels, masks, boxes."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image
from streaming import MDSWriter, StreamingDataLoader, StreamingDataset
from streaming.vision import StreamingADE20K, StreamingCIFAR10, StreamingCOCO
from streaming.vision.base import StreamingVisionDataset


def _picture(number: int, height: int = 4, width: int = 6) -> Image.Image:
    values = np.arange(height * width * 3, dtype=np.int64) * (number + 1) % 256
    return Image.fromarray(values.astype(np.uint8).reshape(height, width, 3))


def _write(out: Path, encoding: str, count: int = 8) -> str:
    with MDSWriter(out=str(out), columns={"x": encoding, "y": "int"}) as writer:
        for i in range(count):
            writer.write({"x": _picture(i), "y": i % 3})
    return str(out)


def _total(image: Any) -> int:
    return int(np.asarray(image, dtype=np.int64).sum())


class CIFAR10Dataset(StreamingDataset):
    """As in MosaicML's tutorial: `__getitem__` returns a pair."""

    def __init__(
        self,
        remote: str,
        local: str,
        shuffle: bool,
        batch_size: int,
        transforms: Callable[[Any], Any],
    ) -> None:
        super().__init__(local=local, remote=remote, shuffle=shuffle, batch_size=batch_size)
        self.transforms = transforms

    def __getitem__(self, idx: Any) -> Any:
        obj = super().__getitem__(idx)
        x = obj["x"]
        y = obj["y"]
        return self.transforms(x), y


def transforms_in_getitem(folder: Path) -> Any:
    dataset = CIFAR10Dataset(
        _write(folder / "remote", "pil"), str(folder / "local"), True, 4, _total
    )
    loader = StreamingDataLoader(dataset, batch_size=4)
    return [[x, y] for x, y in loader]


def a_vision_dataset_with_both_transforms(folder: Path) -> Any:
    dataset = StreamingVisionDataset(
        local=_write(folder / "data", "png"),
        batch_size=4,
        shuffle=True,
        transform=_total,
        target_transform=lambda y: -y,
    )
    return [dataset[2], list(dataset)]


def a_vision_dataset_with_joint_transforms(folder: Path) -> Any:
    dataset = StreamingVisionDataset(
        local=_write(folder / "data", "png"), batch_size=2, transforms=lambda x, y: (y, _total(x))
    )
    return [dataset[1], dataset.transforms(_picture(0), 1)]


def too_many_transforms(folder: Path) -> Any:
    try:
        StreamingVisionDataset(
            local=_write(folder / "data", "png"),
            batch_size=2,
            transforms=lambda x, y: (x, y),
            transform=_total,
        )
    except ValueError:
        return "ValueError"
    return None


class TenClasses(StreamingCIFAR10):
    """A subclass of `StreamingCIFAR10`, which is itself a subclass."""

    def get_item(self, idx: int) -> Any:
        x, y = super().get_item(idx)
        return {"total": x, "label": y, "idx": idx}


def a_subclass_of_cifar10(folder: Path) -> Any:
    dataset = TenClasses(
        local=_write(folder / "data", "pil", 12), batch_size=3, shuffle=True, transform=_total
    )
    return [[b["label"], b["idx"]] for b in StreamingDataLoader(dataset, batch_size=3)]


def segmentation(folder: Path) -> Any:
    with MDSWriter(out=str(folder / "data"), columns={"x": "png", "y": "png"}) as out:
        for i in range(3):
            mask = Image.fromarray(np.full((4, 6), i, np.uint8))
            out.write({"x": _picture(i), "y": mask})
    dataset = StreamingADE20K(
        local=str(folder / "data"),
        batch_size=1,
        joint_transform=lambda pair: (pair[1], pair[0]),
        transform=_total,
        target_transform=lambda image: image.size,
    )
    return list(dataset)


def boxes(folder: Path) -> Any:
    columns = {
        "img": "jpeg",
        "img_id": "int",
        "htot": "int",
        "wtot": "int",
        "bbox_sizes": "ndarray:float32",
        "bbox_labels": "ndarray:int64",
    }
    with MDSWriter(out=str(folder / "data"), columns=columns) as out:
        for i in range(4):
            sample = {"img": _picture(i), "img_id": 100 + i, "htot": 4, "wtot": 6}
            sample["bbox_sizes"] = np.ones((i + 1, 4), np.float32) / 2
            sample["bbox_labels"] = np.arange(i + 1)
            out.write(sample)
    dataset = StreamingCOCO(local=str(folder / "data"), batch_size=1)
    return [(img.size, img.mode, *rest) for img, *rest in dataset]
