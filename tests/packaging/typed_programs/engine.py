"""Names in `mdstorm_backend`, including MosaicML Streaming's."""

from typing import Any

import torch
from typing_extensions import assert_type

from mdstorm import convert
from mdstorm_backend import (
    LocalDataset,
    MDSWriter,
    SampleDataset,
    Stream,
    StreamingDataLoader,
    StreamingDataset,
    open_dataset,
)
from mdstorm_backend.errors import MDStormError


class Pairs(StreamingDataset):
    """A dataset whose samples are tuples."""

    def __getitem__(self, at: int) -> tuple[torch.Tensor, int]:
        sample = super().__getitem__(at)
        return torch.tensor(sample["x"]), sample["label"]


def collate(samples: list[dict[str, Any]]) -> torch.Tensor:
    return torch.stack([sample["x"] for sample in samples])


def train(url: str) -> None:
    dataset = StreamingDataset(streams=[Stream(remote=url)], batch_size=32, shuffle=True)
    for batch in StreamingDataLoader(dataset, batch_size=32, num_workers=2):
        print(batch["x"].mean())
    for x, label in StreamingDataLoader(Pairs(remote=url, batch_size=32), batch_size=32):
        print(x.shape, label.shape)
    for stacked in StreamingDataLoader(dataset, 32, collate_fn=collate):
        assert_type(stacked, torch.Tensor)
    mapped = StreamingDataLoader(dataset, 32, batch_map=lambda batch: len(batch))
    assert_type(mapped, StreamingDataLoader[int])
    for sample in dataset:
        print(sample["x"])
    print(dataset[0]["x"], LocalDataset(url)[0]["x"])


def write(path: str) -> SampleDataset:
    try:
        with MDSWriter(out=path, columns={"x": "float32", "text": "str"}) as writer:
            writer.write({"x": 1.0, "text": "a"})
    except MDStormError as error:
        print(error)
    dataset = open_dataset(path)
    assert_type(dataset[0], dict[str, Any])
    for columns in dataset.batches(4):
        print(columns["x"])
    convert("file:///data/parquet", "file:///data/mds", columns=["x"])
    return dataset
