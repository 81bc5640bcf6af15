"""Programs that take a state while they read, and the rows that must follow once it is loaded."""

import itertools
import json
import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from torch.utils.data import DataLoader

from mdstorm import TransformSpec, make_batch_reader, make_reader, pytorch
from mdstorm.predicates import in_lambda
from mdstorm.selectors import SingleIndexSelector
from mdstorm.spark import SparkDatasetConverter
from mdstorm.tf_utils import make_petastorm_dataset
from mdstorm_backend import (
    ExactOrder,
    Stream,
    StreamingDataLoader,
    StreamingDataset,
    open_dataset,
)

DATA = Path(__file__).with_name("data")
PETASTORM_DATA = Path(__file__).parents[1] / "conformance" / "data"
#: Modification time of all copied files, which is part of the fingerprint of Parquet files in the
#: recorded states.
MODIFIED = 1_700_000_000
#: Batches recorded of a pass without an end.
ENDLESS = 12

Rows = list[int]


def copied(directory: Path) -> Path:
    """Copy the datasets to a directory, with fixed modification times."""
    shutil.copytree(DATA, directory, dirs_exist_ok=True)
    shutil.copytree(PETASTORM_DATA / "places", directory / "places")
    for path in directory.rglob("*"):
        os.utime(path, (MODIFIED, MODIFIED))
    return directory


class Third:
    """A transform that leaves out rows that are multiples of three."""

    columns = ("number",)

    def __call__(self, batch: Any) -> Any:
        return {"number": batch["number"][batch["number"] % 3 != 0]}


class Filter(Third):
    """The same transform, which declares that it leaves out rows."""

    leaves_out_rows = True


class Counting(StreamingDataLoader):
    """A loader that counts the samples in its batches itself."""

    def _get_batch_size(self, batch: Any) -> int:
        return len(batch["number"])


class OwnIteration(StreamingDataset):
    """A dataset with its own `__iter__`, whose batches PyTorch makes."""

    def __iter__(self) -> Any:
        yield from super().__iter__()


def not_third(number: Any) -> Any:
    return number % 3 != 0


def without_thirds(frame: Any) -> Any:
    return frame[frame["number"] % 3 != 0]


def same(row: Any) -> Any:
    return row


PREDICATE = in_lambda(["number"], not_third)
FUNCTION = TransformSpec(without_thirds)


class Reading:
    """Something that is iterated, and has states."""

    def __init__(self, source: Any, state: Callable[[int], Any] | None = None) -> None:
        self.source = source
        self.state = state or (lambda taken: source.state_dict())
        self.load = source.load_state_dict

    def again(self) -> None:
        """Prepare for the next pass, as readers need."""
        if hasattr(self.source, "reset"):
            self.source.reset()

    def take(self, batches: int | None) -> tuple[list[Rows], Any]:
        """Return the rows of some batches (None: all), and the state after them."""
        iterator = iter(self.source)
        found = [numbers_of(batch) for batch in itertools.islice(iterator, batches)]
        state = self.state(len(found))
        if hasattr(iterator, "close"):
            iterator.close()
        return found, json.loads(json.dumps(state))


def numbers_of(batch: Any) -> Rows:
    """Return the numbers in a batch or row."""
    found = batch["number"] if isinstance(batch, dict) else getattr(batch, "number", None)
    if found is None:
        found = batch.id
    found = found.numpy() if hasattr(found, "numpy") else found
    return [int(number) for number in np.atleast_1d(np.asarray(found))]


def torch_loader(
    at: Path,
    rank: int,
    ranks: int,
    *,
    batch_size: int = 7,
    num_workers: int = 0,
    drop_last: bool = False,
    dataset: type[StreamingDataset] = StreamingDataset,
    loader: type[StreamingDataLoader] = StreamingDataLoader,
    order: dict[str, Any],
    **options: Any,
) -> Reading:
    exact = ExactOrder(rank=rank, world_size=ranks, **order)
    source = dataset(local=str(at / "mds"), order=exact, **options)
    workers = {"num_workers": num_workers, "drop_last": drop_last}
    return Reading(loader(source, batch_size=batch_size, **workers))


def elastic_dataset(
    at: Path,
    rank: int,
    ranks: int,
    *,
    dataset: type[StreamingDataset] = StreamingDataset,
    **options: Any,
) -> StreamingDataset:
    options = {"shuffle": True, "shuffle_seed": 5, "batch_size": 7, **options}
    if options.pop("two_streams", False):
        local = str(at / "mds")
        options["streams"] = [Stream(local=local, proportion=p) for p in (0.25, 0.75)]
    else:
        options["local"] = str(at / "mds")
    return dataset(world=(rank, ranks), **options)


def elastic_loader(
    at: Path, rank: int, ranks: int, *, num_workers: int = 0, **options: Any
) -> Reading:
    drop_last = options.pop("loader_drop_last", False)
    source = elastic_dataset(at, rank, ranks, **options)
    return Reading(
        StreamingDataLoader(
            source, batch_size=source.batch_size, num_workers=num_workers, drop_last=drop_last
        )
    )


def samples(at: Path, rank: int, ranks: int, *, order: str, **options: Any) -> Reading:
    if order == "elastic":
        return Reading(elastic_dataset(at, rank, ranks, **options))
    exact = ExactOrder(5, True, True, rank=rank, world_size=ranks)
    return Reading(StreamingDataset(local=str(at / "mds"), order=exact, **options))


class PlainLoader:
    """PyTorch's own loader; the state is the dataset's, for the number of samples taken."""

    def __init__(self, source: StreamingDataset, num_workers: int) -> None:
        self.source = source
        self.loader = DataLoader(source, batch_size=7, num_workers=num_workers)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.loader)

    def load_state_dict(self, state: Any) -> None:
        self.source.load_state_dict(state)


def plain_loader(
    at: Path, rank: int, ranks: int, *, order: str, num_workers: int = 0, **options: Any
) -> Reading:
    source = samples(at, rank, ranks, order=order, **options).source
    plain = PlainLoader(source, num_workers)
    return Reading(plain, lambda taken: source.state_dict(taken * 7 * ranks, True))


def stateful_loader(
    at: Path, rank: int, ranks: int, *, order: str, num_workers: int = 0
) -> Reading:
    """The loader of torchdata, whose state has one for each worker process."""
    from torchdata.stateful_dataloader import StatefulDataLoader

    source = samples(at, rank, ranks, order=order).source
    return Reading(StatefulDataLoader(source, batch_size=7, num_workers=num_workers))


def reader(
    at: Path,
    rank: int,
    ranks: int,
    *,
    make: Callable[..., Any] = make_batch_reader,
    data: str = "parquet",
    over: Callable[[Any], Any] | None = None,
    **options: Any,
) -> Reading:
    """A reader with `ranks` shards, or what `over` makes of it."""
    if ranks > 1:
        options |= {"cur_shard": rank, "shard_count": ranks}
    source = make(f"file://{at / data}", seed=5, **options)
    return Reading(source if over is None else over(source))


def row_reader(at: Path, rank: int, ranks: int, **options: Any) -> Reading:
    return reader(at, rank, ranks, make=make_reader, **options)


def converter_of(at: Path, data: str) -> SparkDatasetConverter:
    dataset = open_dataset(str(at / data)) if data == "mds" else None
    if dataset is not None:
        return SparkDatasetConverter(dataset.url, dataset.file_urls, len(dataset))
    files = [f"file://{path}" for path in sorted((at / data).glob("*.parquet"))]
    return SparkDatasetConverter(None, files, 61)


def converter_torch(
    at: Path, rank: int, ranks: int, *, data: str = "mds", **options: Any
) -> Reading:
    if ranks > 1:
        options |= {"cur_shard": rank, "shard_count": ranks}
    options = {"batch_size": 7, "seed": 5, "num_epochs": 1, **options}
    return Reading(converter_of(at, data).make_torch_dataloader(**options))


def converter_tf(at: Path, rank: int, ranks: int, *, data: str = "mds", **options: Any) -> Reading:
    if ranks > 1:
        options |= {"cur_shard": rank, "shard_count": ranks}
    options = {"batch_size": 7, "seed": 5, "num_epochs": 1, **options}
    source = converter_of(at, data).make_tf_dataset(**options)
    return Reading(source, lambda taken: source.state_dict(batches=taken))


def petastorm_dataset(at: Path, rank: int, ranks: int, **options: Any) -> Reading:
    """TensorFlow's dataset over a reader."""
    return reader(at, rank, ranks, over=make_petastorm_dataset, **options)


@dataclass(frozen=True)
class Program:
    """Ranks that read `before` batches, and load a state of theirs, perhaps on other ranks.

    Attributes
    ----------
    make : callable
        Returns a `Reading` for a directory, a rank and a number of ranks.
    before : sequence of int
        Batches that each rank takes before its state; a further number after each change of ranks.
    ranks : sequence of int
        Numbers of ranks: first while the state is taken, at last when it is loaded. If they differ,
        the state of the first rank is loaded on all ranks.
    is_endless : bool
        Whether passes have no end.
    """

    make: Callable[..., Reading]
    before: tuple[int, ...]
    ranks: tuple[int, ...] = (1, 1)
    is_endless: bool = False
    options: dict[str, Any] = field(default_factory=dict)

    def reading(self, at: Path, rank: int, ranks: int) -> Reading:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Currently make_reader")
            return self.make(at, rank, ranks, **self.options)

    def states(self, at: Path) -> list[Any]:
        """Return the state of each rank, after all changes of the number of ranks but the last."""
        states: list[Any] = []
        for ranks, before in zip(self.ranks, self.before, strict=False):
            states, earlier = [], states
            for rank in range(ranks):
                made = self.reading(at, rank, ranks)
                if earlier:
                    made.load(earlier[0])
                states.append(made.take(before)[1])
        return states

    def following(
        self, at: Path, states: list[Any], *, breaks: bool = False
    ) -> list[list[list[Rows]]]:
        """Load the states; return each rank's batches in the rest of the pass, and in the next.

        With `breaks`, each rank takes another state after a batch, and loads it.
        """
        ranks, found = self.ranks[-1], []
        for rank in range(ranks):
            made = self.reading(at, rank, ranks)
            made.load(states[rank if ranks == len(states) else 0])
            first: list[Rows] = []
            if breaks:
                first, state = made.take(1)
                made = self.reading(at, rank, ranks)
                made.load(state)
            rest = made.take(ENDLESS - len(first) if self.is_endless else None)[0]
            passes = [first + rest]
            if not self.is_endless:
                made.again()
                passes.append(made.take(None)[0])
            found.append(passes)
        return found


def program(
    make: Callable[..., Reading], before: Any, ranks: Any = (1, 1), **options: Any
) -> Program:
    before = before if isinstance(before, tuple) else (before,)
    is_endless = "num_epochs" in options and options["num_epochs"] is None
    return Program(make, before, ranks, is_endless, options)


SHUFFLED = {"seed": 5, "shuffle_shards": True, "shuffle_rows": True}
IN_WINDOWS = {**SHUFFLED, "window": 20}
IN_QUEUE = {**SHUFFLED, "queue": 4}
WHEN = {"unread": 0, "first": 1, "middle": 4, "last": 9, "end": 10}
IN_DATALOADER = partial(pytorch.DataLoader, batch_size=7)
IN_BATCHED = partial(pytorch.BatchedDataLoader, batch_size=7)
IN_SHUFFLED = partial(IN_BATCHED, shuffling_queue_capacity=20)


def in_exact_order() -> dict[str, Program]:
    make = partial(program, torch_loader)
    found = {f"in order, {when}": make(n, order={}) for when, n in WHEN.items()}
    make = partial(make, order=SHUFFLED)
    found |= {f"shuffled, {when}": make(n) for when, n in WHEN.items()}
    found |= {
        "without last batch": make(3, drop_last=True),
        "workers, two ranks": make(2, (2, 2), num_workers=2),
        "two epochs, first": make(3, num_epochs=2),
        "two epochs, second": make(12, num_epochs=2),
        "endless": make(20, num_epochs=None),
        "endless, workers": make(13, num_epochs=None, num_workers=2),
        "one to four to three to two ranks": make((1, 1, 1), (1, 4, 3, 2)),
        "counting itself": make(3, loader=Counting),
        "own iteration": make(3, dataset=OwnIteration),
    }
    for transform in (Filter(), Third()):
        name, changed = type(transform).__name__, partial(make, transform=transform)
        found |= {
            name: changed(3),
            f"{name}, two ranks": changed(2, (2, 2)),
            f"{name}, two epochs": changed(7, num_epochs=2),
            f"{name}, workers": changed(2, num_workers=2),
        }
    make = partial(make, order=IN_WINDOWS)
    return found | {
        "two ranks": make(3, (2, 2)),
        "two ranks, last batch": make(5, (2, 2)),
        "workers": make(3, num_workers=2),
        "two epochs, two ranks": make(7, (2, 2), num_epochs=2),
        "two ranks to three": make(2, (2, 3)),
        "two ranks to one": make(3, (2, 1)),
        "one to three to two ranks": make((2, 1), (1, 3, 2)),
        "queue": make(3, order=IN_QUEUE),
        "queue, four ranks to one": make(2, (4, 1), order=IN_QUEUE),
    }


def in_elastic_order() -> dict[str, Program]:
    make = partial(program, elastic_loader)
    found = {when: make(n) for when, n in WHEN.items()}
    algorithms = ("py1s", "py1br", "py2s", "naive")
    found |= {name: make(3, (2, 2), shuffle_algo=name) for name in algorithms}
    return found | {
        "two ranks": make(3, (2, 2)),
        "two ranks, end": make(5, (2, 2)),
        "two ranks to one": make(2, (2, 1), batch_size=6),
        "two ranks to three": make(2, (2, 3), batch_size=6),
        "in order": make(3, shuffle=False),
        "workers": make(3, num_workers=2),
        "canonical nodes": make(2, (2, 2), num_canonical_nodes=4),
        "without last batch": make(3, loader_drop_last=True),
        "epoch size": make(3, epoch_size=40),
        "two streams": make(3, (2, 2), two_streams=True),
        "own iteration": make(3, dataset=OwnIteration),
    }


def of_samples(order: str) -> dict[str, Program]:
    found = {when: program(samples, n, order=order) for when, n in WHEN.items()}
    return found | {
        "of an epoch": program(samples, 61, order=order),
        "two ranks": program(samples, 12, (2, 2), order=order),
        "plain loader": program(plain_loader, 3, order=order),
    }


def of_torchdata() -> dict[str, Program]:
    return {
        f"{order}, {num_workers} workers": program(
            stateful_loader, 4, order=order, num_workers=num_workers
        )
        for order in ("exact", "elastic")
        for num_workers in (0, 2)
    }


def of_readers(data: str) -> dict[str, Program]:
    read = partial(program, reader, data=data)
    rows = partial(program, row_reader, data=data)
    return {
        "unread": read(0),
        "middle": read(2),
        "two ranks": read(2, (2, 2)),
        "two epochs": read(8, num_epochs=2),
        "endless": read(8, num_epochs=None),
        "shuffled rows": read(2, shuffle_rows=True),
        "predicate": read(2, predicate=PREDICATE),
        "filters": read(1, filters=[("number", ">", 15)]),
        "function": read(2, transform_spec=FUNCTION),
        "row drop partitions": read(3, shuffle_row_drop_partitions=2),
        "rows": rows(17),
        "rows, two ranks": rows(9, (2, 2)),
        "rows, predicate": rows(9, predicate=PREDICATE),
        "in DataLoader": read(3, over=IN_DATALOADER),
        "in DataLoader, predicate": read(3, over=IN_DATALOADER, predicate=PREDICATE),
        "in BatchedDataLoader": read(3, over=IN_BATCHED),
        "in BatchedDataLoader, two ranks to three": read(2, (2, 3), over=IN_BATCHED),
        "in BatchedDataLoader, shuffled": read(3, over=IN_SHUFFLED),
        "in TensorFlow": program(petastorm_dataset, 2, data=data),
    }


def of_converters(make: Callable[..., Reading], data: str) -> dict[str, Program]:
    convert = partial(program, make, data=data)
    return {
        "first": convert(1),
        "middle": convert(4),
        "end": convert(9),
        "two ranks": convert(3, (2, 2), shuffling_queue_capacity=20),
        "two epochs": convert(12, num_epochs=2),
        "endless": convert(12, num_epochs=None),
        "two ranks to three": convert(2, (2, 3)),
        "predicate": convert(2, predicate=PREDICATE),
        "predicate, two ranks": convert(1, (2, 2), predicate=PREDICATE),
        "filters": convert(2, filters=[("number", ">", 15)]),
        "function": convert(3, transform_spec=FUNCTION),
        "function, two ranks": convert(2, (2, 2), transform_spec=FUNCTION),
        "elastic": convert(3, (2, 2), order="elastic"),
        "elastic, two ranks to one": convert(2, (2, 1), order="elastic", batch_size=6),
    }


#: Programs that need torchdata, by name.
OF_TORCHDATA = {f"torchdata: {name}": one for name, one in of_torchdata().items()}
SELECTED = {"data": "places", "rowgroup_selector": SingleIndexSelector("by_id", [4, 7])}
#: All other programs.
PROGRAMS = {
    f"{group}: {name}": one
    for group, programs in {
        "exact order": in_exact_order(),
        "elastic order": in_elastic_order(),
        "samples, exact order": of_samples("exact"),
        "samples, elastic order": of_samples("elastic"),
        "readers of Parquet": of_readers("parquet"),
        "readers of MDS": of_readers("mds"),
        "readers with a selector": {
            "batches": program(reader, 1, **SELECTED),
            "rows": program(row_reader, 1, **SELECTED),
        },
        "PyTorch, Parquet": of_converters(converter_torch, "parquet"),
        "PyTorch, MDS": of_converters(converter_torch, "mds"),
        "TensorFlow, MDS": of_converters(converter_tf, "mds"),
    }.items()
    for name, one in programs.items()
}
