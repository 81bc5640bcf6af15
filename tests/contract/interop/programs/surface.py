"""The classes' interface: settings, attributes, methods, positional arguments."""

import pickle
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from streaming import LocalDataset, MDSWriter, Stream, StreamingDataLoader, StreamingDataset
from torch.utils.data import DataLoader, IterableDataset

ARGUMENTS: dict[str, Any] = {"batch_size": 4, "shuffle": True, "shuffle_seed": 3}
CHANGES: list[tuple[str, Any]] = [
    ("shuffle", False),
    ("shuffle_algo", "py1s"),
    ("shuffle_seed", 11),
    ("shuffle_block_size", 30),
    ("num_canonical_nodes", 4),
    ("batch_size", 8),
    ("batching_method", "per_stream"),
    ("predownload", 16),
    ("partition_algo", "orig"),
]
FIVE = ("epoch", "sample_in_epoch", "num_canonical_nodes", "shuffle_seed", "initial_physical_nodes")
SHOWN = (
    *("num_samples", "size", "length", "epoch_size", "num_streams", "num_shards", "next_epoch"),
    *("predownload", "num_canonical_nodes", "shuffle_block_size", "shuffle_seed", "shuffle_algo"),
    *("batching_method", "sampling_method", "sampling_granularity", "partition_algo"),
    *("allow_unsafe_types", "replication", "batch_size", "shuffle", "initial_physical_nodes"),
    *("epoch_seed_change", "cache_limit"),
)
COUNTS = (
    *("samples_per_shard", "sample_offset_per_shard", "samples_per_stream", "shards_per_stream"),
    *("stream_per_shard", "sample_offset_per_stream", "shard_offset_per_stream"),
)


def _write(folder: Path) -> str:
    with MDSWriter(out=str(folder / "data"), columns={"number": "int"}, size_limit=400) as out:
        for number in range(90):
            out.write({"number": number})
    return str(folder / "data")


def _flat(batches: Any) -> list[int]:
    return [int(n) for batch in batches for n in np.asarray(batch).reshape(-1)]


def _five(state: Any) -> Any:
    return None if state is None else {key: state[key] for key in FIVE}


def _shown(dataset: Any) -> dict[str, Any]:
    found = {name: getattr(dataset, name) for name in SHOWN}
    return found | {name: getattr(dataset, name).tolist() for name in COUNTS}


def settings(folder: Path) -> Any:
    data, found = _write(folder), []
    for name, value in CHANGES:
        dataset = StreamingDataset(local=data, **ARGUMENTS)
        loader = StreamingDataLoader(dataset, batch_size=4)
        passes = [_flat(batch["number"] for batch in loader)]
        before = _shown(dataset)
        setattr(dataset, name, value)
        passes += [_flat(batch["number"] for batch in loader) for _ in range(2)]
        after = _shown(dataset)
        for follows in ("epoch_seed_change", "predownload"):  # these change only in mdstorm
            del after[follows]
        found.append([name, passes, before, after, _five(loader.state_dict())])
    return found


def names(folder: Path) -> Any:
    data = _write(folder)

    class Own(StreamingDataset):  # type: ignore[misc]
        def __init__(self, **arguments: Any) -> None:
            self.options = self.samples = self.reading = self.batch_size = 1
            self.remote = self.local = self.split = self.tokenizer = "own"
            super().__init__(**arguments)
            self._sample = self.dataset = self.order = self.columns = self.parts = "own"
            self.workers = self.transform = self.num_epochs = self.streams_of_mine = "own"

        def __getitem__(self, at: Any) -> Any:
            return -super().__getitem__(at)["number"]

    dataset = Own(local=data, **ARGUMENTS)
    loader = StreamingDataLoader(dataset, batch_size=4)
    begun = _flat(islice(loader, 5))
    state = loader.state_dict()
    again = StreamingDataLoader(Own(local=data, **ARGUMENTS), batch_size=4)
    again.load_state_dict({key: state[key] for key in FIVE})
    return [begun, _flat(again), _five(state), dataset.options, dataset.local, dataset.columns]


def streams(folder: Path) -> Any:
    calls: list[str] = []

    class Some(Stream):  # type: ignore[misc]
        def get_shards(self, world: Any, allow_unsafe_types: bool) -> Any:
            calls.append(f"get_shards {allow_unsafe_types}")
            return super().get_shards(world, allow_unsafe_types)[::2]

        def prepare_shard(self, shard: Any) -> int:
            calls.append(f"prepare_shard {shard.raw_data.basename}")
            return int(super().prepare_shard(shard))

        def _download_file(self, from_basename: str, to_basename: Any = None) -> str:
            calls.append(f"_download_file {from_basename}")
            return str(super()._download_file(from_basename, to_basename))

    stream = Some(remote=_write(folder), local=str(folder / "streams"), keep_zip=True)
    dataset = StreamingDataset(streams=[stream], batch_size=4, download_retry=3)
    found = [int(sample["number"]) for sample in dataset]
    inherited = [stream.split, stream.download_retry, stream.keep_zip, stream.safe_keep_zip]
    weights = [float(stream.proportion), float(stream.repeat), int(stream.choose)]
    files = sorted(p.name for p in Path(stream.local).iterdir() if p.suffix in (".mds", ".json"))
    return [found, sorted({*calls}), inherited, weights, files, dataset.size]


def local_dataset(folder: Path) -> Any:
    data = _write(folder)

    class Own(LocalDataset):  # type: ignore[misc]
        def __init__(self, local: str) -> None:
            super().__init__(local)
            self.options = self.dataset = self.index = "own"

        def get_item(self, sample_id: int) -> Any:
            return int(super().get_item(sample_id)["number"])

    dataset = pickle.loads(pickle.dumps(LocalDataset(data)))  # noqa: S301  # made here
    own = Own(data)
    errors = []
    for at in (own.size, -own.size - 1, "number"):
        try:
            own[at]
        except (IndexError, ValueError) as error:
            errors.append(type(error).__mro__[-3].__name__)
    return [
        [len(dataset), dataset.size, dataset.num_samples, dataset.local == data, dataset.split],
        [int(dataset[i]["number"]) for i in (0, 5, -1, np.int64(3))],
        [own[2:9:3], own[-4:], own[[1, [2, 3]]], own[np.array([[4, 5], [-1, 0]])], own[50:40]],
        _flat(DataLoader(own, batch_size=5, num_workers=2)),
        [shard.samples for shard in dataset.shards],
        [[len(s), s.size, s.get_raw_size(), s.get_zip_size()] for s in dataset.shards],
        [int(dataset.shards[1][j]["number"]) for j in (0, 3, -1)],
        [int(sample["number"]) for sample in StreamingDataset(local=data).shards[4][2:5]],
        [int(number) for number in dataset.spanner[33]],
        len(errors),
    ]


def loaders(folder: Path) -> Any:
    data = _write(folder)

    class Wrapped(IterableDataset):  # type: ignore[type-arg]
        def __init__(self, dataset: Any) -> None:
            self.dataset = dataset

        def __iter__(self) -> Any:
            for sample in self.dataset:
                yield sample["number"], sample["number"]

    class Alone(StreamingDataset):  # type: ignore[misc]
        def __getitem__(self, at: Any) -> Any:
            return np.array([super().__getitem__(at)["number"]])

    class Squares(StreamingDataset):  # type: ignore[misc]
        def __iter__(self) -> Any:
            for sample in super().__iter__():
                yield {"square": sample["number"] ** 2}

    class Loader(StreamingDataLoader):  # type: ignore[misc]
        def __iter__(self) -> Any:
            for batch in super().__iter__():
                yield batch["number"]

    def made(kind: Any = StreamingDataset) -> Any:
        return kind(local=data, **ARGUMENTS)

    found: list[Any] = []
    by_place = StreamingDataLoader(made(), 4, None, None, None, 0, None, False, True)
    found.append([_flat(batch["number"] for batch in by_place), len(by_place)])
    alone = StreamingDataLoader(Alone(local=data, **ARGUMENTS), batch_size=None)
    begun = _flat(islice(alone, 7))
    found.append([begun, len(alone), alone.num_samples_yielded, _five(alone.state_dict())])
    wrapped = StreamingDataLoader(Wrapped(made()), batch_size=4)
    batches = [first for first, _ in islice(wrapped, 3)]
    found.append([_flat(batches), wrapped.num_samples_yielded, wrapped.state_dict()])
    for workers in (0, 2):
        squares = StreamingDataLoader(made(Squares), batch_size=4, num_workers=workers)
        iterator = iter(squares)
        begun = _flat(batch["square"] for batch in islice(iterator, 5))
        state = _five(squares.state_dict())
        rest = _flat(batch["square"] for batch in iterator)
        again = StreamingDataLoader(made(Squares), batch_size=4, num_workers=workers)
        again.load_state_dict(state)
        resumed = _flat(batch["square"] for batch in again)
        found.append([begun, rest, resumed, state, len(squares), squares.num_samples_yielded])
    own = Loader(made(), batch_size=4)
    begun = _flat(islice(own, 4))
    found.append([begun, _five(own.state_dict()), len(own), own.num_samples_yielded])
    dataset = made()
    first = _five(dataset.state_dict(0, True))
    other = StreamingDataset(local=data, batch_size=4, shuffle=True, shuffle_seed=8)
    other.load_state_dict(first | {"num_canonical_nodes": 3})
    found.append([first["epoch"], _flat(sample["number"] for sample in other)])
    return found


def unsigned_columns(folder: Path) -> Any:
    columns = {"a": "uint16", "b": "uint32", "c": "ndarray:uint16:2", "d": "ndarray"}
    out = str(folder / "unsigned")
    with MDSWriter(columns=columns, out=out) as writer:
        for n in range(4):
            array = np.array([n, 2**16 - 1], np.uint16)
            numbers = {"a": 2**16 - 1 - n, "b": 2**32 - 1 - n}
            writer.write({**numbers, "c": array, "d": array.astype(np.uint32)})
    found = []
    for workers in (0, 2):
        dataset = StreamingDataset(local=out, batch_size=2)
        for batch in StreamingDataLoader(dataset, batch_size=2, num_workers=workers):
            found.append({name: [str(t.dtype), t.numpy().tolist()] for name, t in batch.items()})
    return found


def writer(folder: Path) -> Any:
    made = MDSWriter(
        columns={"b": "str", "a": "ndarray:float32:2"},
        out=str(folder / "written"),
        compression="zstd:3",
        hashes=["md5"],
        size_limit="1kb",
    )
    names = ("columns", "column_names", "column_encodings", "column_sizes")
    options = ("compression", "hashes", "size_limit", "keep_local", "remote")
    found = {name: getattr(made, name) for name in (*names, *options)}
    made.write({"a": np.zeros(2, np.float32), "b": "x"})
    made.finish()
    return {**found, "config": made.get_config()}
