"""Several streams in one dataset."""

from collections import Counter
from pathlib import Path
from typing import Any

from streaming import MDSWriter, Stream, StreamingDataLoader, StreamingDataset


def _write(folder: Path, name: str, start: int, count: int) -> str:
    with MDSWriter(
        out=str(folder / name), columns={"id": "int", "name": "str"}, size_limit=400
    ) as out:
        for i in range(start, start + count):
            out.write({"id": i, "name": name})
    return str(folder / name)


def _streams(folder: Path, weights: list[dict[str, Any]]) -> list[Stream]:
    return [
        Stream(local=_write(folder, f"stream{i}", 100 * i, 20 + 10 * i), **weight)
        for i, weight in enumerate(weights)
    ]


def _names(dataset: StreamingDataset) -> Any:
    samples = list(dataset)
    return [Counter(sample["name"] for sample in samples), [sample["id"] for sample in samples]]


def proportions(folder: Path) -> Any:
    streams = _streams(folder, [{"proportion": 0.25}, {"proportion": 0.75}])
    dataset = StreamingDataset(streams=streams, batch_size=4, shuffle=True)
    weights = [(float(s.proportion), float(s.repeat), int(s.choose)) for s in dataset.streams]
    return [_names(dataset), weights]


def streams_of_remote_splits(folder: Path) -> Any:
    for i, split in enumerate(("train", "extra")):
        _write(folder / "remote", split, 50 * i, 6)
    streams = [
        Stream(remote=str(folder / "remote"), local=str(folder / "cache"), split=split)
        for split in ("train", "extra")
    ]
    dataset = StreamingDataset(streams=streams, batch_size=3, shuffle=True, shuffle_algo="py1br")
    return [batch["id"].tolist() for batch in StreamingDataLoader(dataset, batch_size=3)]
