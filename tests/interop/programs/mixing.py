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


def repeats(folder: Path) -> Any:
    streams = _streams(folder, [{"repeat": 2}, {"repeat": 0.5}])
    return _names(StreamingDataset(streams=streams, batch_size=4))


def choices(folder: Path) -> Any:
    streams = _streams(folder, [{"choose": 7}, {"choose": 33}])
    return _names(StreamingDataset(streams=streams, batch_size=4, shuffle=True, shuffle_seed=1))


def streams_without_weights(folder: Path) -> Any:
    dataset = StreamingDataset(streams=_streams(folder, [{}, {}]), batch_size=4)
    return [_names(dataset), dataset.num_streams, dataset.num_shards]


def an_epoch_of_another_size(folder: Path) -> Any:
    streams = _streams(folder, [{"proportion": 1}, {"proportion": 1}])
    dataset = StreamingDataset(streams=streams, batch_size=4, epoch_size=30, shuffle=True)
    return [_names(dataset), _names(dataset)]


def an_epoch_size_in_words(folder: Path) -> Any:
    streams = _streams(folder, [{"proportion": 1}, {"proportion": 1}])
    dataset = StreamingDataset(streams=streams, batch_size=4, epoch_size="0.06k")
    return [len(dataset), dataset.epoch_size]


def sampling_that_stays(folder: Path) -> Any:
    streams = _streams(folder, [{"choose": 5}, {"choose": 5}])
    dataset = StreamingDataset(
        streams=streams, batch_size=2, sampling_method="fixed", sampling_granularity=3
    )
    return [_names(dataset), _names(dataset)]


def batches_of_one_stream(folder: Path) -> Any:
    streams = _streams(folder, [{}, {}])
    dataset = StreamingDataset(
        streams=streams, batch_size=5, batching_method="per_stream", shuffle=True
    )
    return [sorted({*b["name"]}) for b in StreamingDataLoader(dataset, batch_size=5)]


def batches_of_all_streams(folder: Path) -> Any:
    streams = _streams(folder, [{"proportion": 1}, {"proportion": 3}])
    dataset = StreamingDataset(streams=streams, batch_size=8, batching_method="stratified")
    return [Counter(b["name"]) for b in StreamingDataLoader(dataset, batch_size=8)]


def weights_that_contradict(folder: Path) -> Any:
    found = []
    for weights in ([{"proportion": 1}, {"repeat": 1}], [{"proportion": 1, "choose": 1}, {}]):
        try:
            StreamingDataset(streams=_streams(folder, weights), batch_size=2)
        except ValueError:
            found.append("ValueError")
        for path in folder.glob("stream*/*"):
            path.unlink()
    return found


def streams_of_remote_splits(folder: Path) -> Any:
    for i, split in enumerate(("train", "extra")):
        _write(folder / "remote", split, 50 * i, 6)
    streams = [
        Stream(remote=str(folder / "remote"), local=str(folder / "cache"), split=split)
        for split in ("train", "extra")
    ]
    dataset = StreamingDataset(streams=streams, batch_size=3, shuffle=True, shuffle_algo="py1br")
    return [batch["id"].tolist() for batch in StreamingDataLoader(dataset, batch_size=3)]
