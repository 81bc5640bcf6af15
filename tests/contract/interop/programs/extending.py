"""Programs that extend the classes with encodings, settings, subclasses and wrappers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from streaming import MDSWriter, Stream, StreamingDataLoader, StreamingDataset
from torch.utils.data import Dataset, Subset


def _write(out: Path, count: int = 24, start: int = 0) -> str:
    with MDSWriter(out=str(out), columns={"id": "int"}, size_limit=256) as writer:
        for i in range(start, start + count):
            writer.write({"id": i})
    return str(out)


def _ids(loader: Any) -> Any:
    return [batch["id"].tolist() for batch in loader]


class EvenShards(Stream):
    """Reads every other shard."""

    prepared: list[str]

    def get_shards(self, world: Any, allow_unsafe_types: bool) -> Any:
        shards = super().get_shards(world, allow_unsafe_types)
        self.prepared = []
        return shards[::2]

    def prepare_shard(self, shard: Any) -> int:
        self.prepared.append("shard")
        return super().prepare_shard(shard)


def a_stream_by_its_registered_name(folder: Path) -> Any:
    from streaming.base.stream import streams_registry

    streams_registry.register("even", func=EvenShards)
    dataset = StreamingDataset(local=_write(folder / "data"), batch_size=4, stream_name="even")
    return [sample["id"] for sample in dataset]


class Doubled(StreamingDataLoader):
    """Changes each batch, but not the position."""

    def __iter__(self) -> Iterator[Any]:
        for batch in super().__iter__():
            yield {"id": batch["id"] * 2}


def a_loader_that_changes_batches(folder: Path) -> Any:
    dataset = StreamingDataset(local=_write(folder), batch_size=4, shuffle=True)
    loader = Doubled(dataset, batch_size=4)
    seen = []
    for batch in loader:
        seen.append(batch["id"].tolist())
        if len(seen) == 2:
            break
    return [len(loader), seen, loader.state_dict()["sample_in_epoch"]]


class Batches(StreamingDataset):
    """A dataset that yields batches itself."""

    def __iter__(self) -> Iterator[Any]:
        rows = [sample["id"] for sample in super().__iter__()]
        for start in range(0, len(rows), 4):
            yield {"id": np.asarray(rows[start : start + 4])}


def batches_made_by_the_dataset(folder: Path) -> Any:
    dataset = Batches(local=_write(folder, 10), batch_size=2)
    return _ids(StreamingDataLoader(dataset, batch_size=None))


class Wrapped(Dataset):  # type: ignore[type-arg]
    """Wraps a dataset and negates its samples."""

    def __init__(self, dataset: StreamingDataset) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return self.dataset.size

    def __getitem__(self, idx: int) -> Any:
        return {"id": -self.dataset[idx]["id"]}


def a_dataset_that_wraps_another(folder: Path) -> Any:
    dataset = Wrapped(StreamingDataset(local=_write(folder, 10), batch_size=4))
    return _ids(StreamingDataLoader(dataset, batch_size=4))


def part_of_a_dataset(folder: Path) -> Any:
    from torch.utils.data import DataLoader

    dataset = StreamingDataset(local=_write(folder), batch_size=4)
    return _ids(DataLoader(Subset(dataset, [3, 1, 20, 7]), batch_size=2))
