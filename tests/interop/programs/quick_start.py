"""First programs: write a dataset, read it back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
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


def a_writer_that_is_finished_by_hand(folder: Path) -> Any:
    out = MDSWriter(out=str(folder / "data"), columns={"x": "int", "y": "str"})
    for i in range(5):
        out.write({"x": i, "y": str(i * i)})
    out.finish()
    index = json.loads((folder / "data" / "index.json").read_text())
    shard = index["shards"][0]
    return [index["version"], shard["column_names"], shard["column_encodings"], shard["samples"]]


def remote_and_local(folder: Path) -> Any:
    remote = _write(folder / "remote", size_limit=300)
    local = folder / "cache"
    dataset = StreamingDataset(remote=remote, local=str(local), shuffle=True, batch_size=8)
    ids = [sample["id"] for sample in dataset]
    files = sorted(path.name for path in local.iterdir() if path.is_file())
    return [ids, files]


def one_sample_by_its_index(folder: Path) -> Any:
    dataset = StreamingDataset(local=_write(folder / "data"), batch_size=1)
    return [dataset[0], dataset[39]["text"], dataset[-1]["id"]]


def several_samples_by_their_indices(folder: Path) -> Any:
    dataset = StreamingDataset(local=_write(folder / "data"), batch_size=1)
    return [
        [sample["id"] for sample in dataset[3:7]],
        [sample["id"] for sample in dataset[[9, 1, 5]]],
        [sample["id"] for sample in dataset[np.array([2, 30])]],
        [sample["id"] for sample in dataset[-3:]],
    ]


def an_index_beyond_the_end(folder: Path) -> Any:
    dataset = StreamingDataset(local=_write(folder / "data"), batch_size=1)
    try:
        dataset[40]
    except IndexError:
        return "IndexError"
    return None


def sizes(folder: Path) -> Any:
    dataset = StreamingDataset(local=_write(folder / "data", 10), batch_size=4)
    return [len(dataset), dataset.size, dataset.num_samples, dataset.epoch_size]


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


def batches_of_a_streaming_loader(folder: Path) -> Any:
    dataset = StreamingDataset(local=_write(folder / "data", 10), batch_size=4, shuffle=False)
    loader = StreamingDataLoader(dataset, batch_size=4, drop_last=False)
    return [len(loader), [{"id": batch["id"], "text": batch["text"]} for batch in loader]]


def the_last_batch_dropped(folder: Path) -> Any:
    dataset = StreamingDataset(local=_write(folder / "data", 10), batch_size=4)
    loader = StreamingDataLoader(dataset, batch_size=4, drop_last=True)
    return [len(loader), [batch["id"].tolist() for batch in loader]]


def two_workers(folder: Path) -> Any:
    dataset = StreamingDataset(
        local=_write(folder / "data", 24, size_limit=256), batch_size=4, shuffle=True
    )
    loader = StreamingDataLoader(dataset, batch_size=4, num_workers=2)
    return [batch["id"].tolist() for batch in loader]


_ONES = ["", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
_TENS = ["", "ten", "twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]


def _say(number: int) -> str:
    return f"{_TENS[number // 10]} {_ONES[number % 10]}".strip() or "zero"


def numbers_in_words(folder: Path) -> Any:
    """The tutorial of synthetic texts: numbers and how they are said."""
    rng = np.random.default_rng(17)
    numbers = {"train": rng.integers(0, 100, 30), "val": rng.integers(0, 100, 6)}
    for split, values in numbers.items():
        with MDSWriter(
            out=str(folder / split),
            columns={"number": "int", "words": "str"},
            compression="zstd:7",
            hashes=["sha1", "xxh64"],
            size_limit=1 << 9,
        ) as out:
            for value in values:
                out.write({"number": int(value), "words": _say(int(value))})
    train = StreamingDataset(local=str(folder / "train"), shuffle=True, batch_size=5)
    val = StreamingDataset(local=str(folder / "val"), shuffle=False, batch_size=5)
    first = next(iter(StreamingDataLoader(train, batch_size=5)))
    return [train.num_samples, val.num_samples, first, [sample["words"] for sample in val]]


def a_model_learns(folder: Path) -> Any:
    """A loop as in any tutorial: two epochs, one optimizer."""
    with MDSWriter(out=str(folder / "data"), columns={"x": "float64", "y": "float64"}) as out:
        for i in range(64):
            out.write({"x": i / 64, "y": 3 * i / 64 + 1})
    dataset = StreamingDataset(
        local=str(folder / "data"), shuffle=True, shuffle_seed=3, batch_size=16
    )
    loader = StreamingDataLoader(dataset, batch_size=16)
    torch.manual_seed(0)
    model = torch.nn.Linear(1, 1, dtype=torch.float64)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    for _ in range(2):
        for batch in loader:
            loss = torch.nn.functional.mse_loss(model(batch["x"][:, None]), batch["y"][:, None])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(round(loss.item(), 6))
    return losses
