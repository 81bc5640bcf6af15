"""First programs, which write a dataset and read it back."""

from pathlib import Path
from typing import Any

import numpy as np
from streaming import MDSWriter, StreamingDataLoader, StreamingDataset
from torch.utils.data import DataLoader


def _write(out: Path, count: int = 40, **settings: Any) -> str:
    columns = {"id": "int", "text": "str", "vector": "bytes"}
    with MDSWriter(out=str(out), columns=columns, **settings) as writer:
        for i in range(count):
            vector = np.arange(i, i + 3, dtype=np.float32)
            writer.write({"id": i, "text": f"number {i}", "vector": vector.tobytes()})
    return str(out)


def write_and_read(folder: Path) -> Any:
    data_dir = str(folder / "dataset")
    columns = {"image": "bytes", "class": "int"}
    rng = np.random.default_rng(0)
    with MDSWriter(out=data_dir, columns=columns, compression="zstd") as out:
        for i in range(20):
            sample = {"image": rng.integers(0, 256, 48, np.uint8).tobytes(), "class": i % 10}
            out.write(sample)
    dataset = StreamingDataset(local=data_dir, split=None, shuffle=True, batch_size=4)
    loader = DataLoader(dataset, batch_size=4)
    return [[batch["class"].tolist(), [len(image) for image in batch["image"]]] for batch in loader]


def remote_and_local(folder: Path) -> Any:
    remote = _write(folder / "remote", size_limit=300)
    local = folder / "cache"
    dataset = StreamingDataset(remote=remote, local=str(local), shuffle=True, batch_size=8)
    ids = [sample["id"] for sample in dataset]
    files = sorted(path.name for path in local.iterdir() if path.is_file())
    return [ids, files]


def several_samples_by_their_indices(folder: Path) -> Any:
    dataset = StreamingDataset(local=_write(folder / "data"), batch_size=1)
    return [
        [sample["id"] for sample in dataset[3:7]],
        [sample["id"] for sample in dataset[[9, 1, 5]]],
        [sample["id"] for sample in dataset[np.array([2, 30])]],
        [sample["id"] for sample in dataset[-3:]],
    ]


def train_and_validation(folder: Path) -> Any:
    for split, count in (("train", 12), ("val", 5)):
        _write(folder / "data" / split, count)
    found = {}
    for split in ("train", "val"):
        dataset = StreamingDataset(
            remote=str(folder / "data"),
            local=str(folder / "cache"),
            split=split,
            shuffle=split == "train",
            batch_size=4,
        )
        loader = StreamingDataLoader(dataset, batch_size=4)
        found[split] = [batch["id"].tolist() for batch in loader]
    return found
