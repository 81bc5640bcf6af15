"""Loaders read the rows of a model: `tests.kit.row_model`, a list of rows and the documented rule.

The machine runs random programs on one to three ranks, in one process. Programs iterate, stop,
peek, keep iterators, save, load here or in another world, skip, set epochs, copy and pickle. After
each step, the machine compares rows, lengths, states and traces with the model.
"""

import copy
import json
import pickle
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.kit.loaders import CountingItself, Own, OwnStates
from tests.kit.readers import write_parquet
from tests.kit.row_model import Counting, Iteration, ModelLoader, Place, Rows, elastic, exact
from tests.kit.small_datasets import write_numbers

from mdstorm import make_batch_reader
from mdstorm.pytorch import BatchedDataLoader, DataLoader
from mdstorm.spark import SparkDatasetConverter
from mdstorm_backend import ExactOrder, StreamingDataLoader, StreamingDataset, open_dataset

#: Shards of equal size for MosaicML Streaming's order, and others that no world divides.
EVEN, UNEVEN, GROUPS = (0, 15, 30, 45, 60), (0, 15, 30, 45, 61), (0, 15, 30, 45, 60, 61)

Share = tuple[int, int]
#: An iterator, and the iteration of the model's loader that it corresponds to.
Running = tuple[Any, ModelLoader, Iteration]


@dataclass(frozen=True)
class Data:
    even: str
    uneven: str
    parquet: str


def streaming(
    rows: Rows, share: Share, data: Data, kind: type[StreamingDataset] = StreamingDataset
) -> StreamingDataset:
    options: dict[str, Any] = {"num_epochs": rows.num_epochs}
    if rows.batches_of is elastic:
        options |= {"shuffle": True, "num_canonical_nodes": 1, "world": share}
        return kind(local=data.even, batch_size=rows.batch_size, **options)
    order = ExactOrder(rows.seed, True, rows.shuffles_rows, rows.window, *share, queue=rows.queue)
    url = data.even if rows.bounds == EVEN else data.uneven
    return kind(local=url, order=order, **options)


def torch_loader(
    rows: Rows,
    share: Share,
    data: Data,
    dataset: type[StreamingDataset] = StreamingDataset,
    loader: type[StreamingDataLoader[Any]] = StreamingDataLoader,
    **options: Any,
) -> Any:
    source = streaming(rows, share, data, dataset)
    return loader(source, rows.batch_size, drop_last=rows.drops_last, **options)


def another(loader: Any) -> Any:
    return type(loader)(loader.dataset, loader.batch_size, drop_last=loader.drop_last)


def over_reader(kind: Callable[..., Any], rows: Rows, share: Share, data: Data) -> Any:
    options = {"cur_shard": share[0], "shard_count": share[1], "num_epochs": rows.num_epochs}
    reader = make_batch_reader(data.parquet, seed=rows.seed, shuffle_rows=True, **options)
    return kind(reader, batch_size=rows.batch_size)


def converted(method: str, rows: Rows, share: Share, data: Data) -> Any:
    dataset = open_dataset(data.uneven)
    converter = SparkDatasetConverter(dataset.url, dataset.file_urls, len(dataset))
    options = {"cur_shard": share[0], "shard_count": share[1], "num_epochs": rows.num_epochs}
    shuffle = {"shuffling_queue_capacity": rows.queue, "seed": rows.seed}
    return getattr(converter, method)(rows.batch_size, **options, **shuffle)


def itself(loader: Any) -> Any:
    return loader


def take_of_tf(dataset: Any, batches: int | None) -> Iterator[Any]:
    return iter(dataset if batches is None else dataset.take(batches))


def pickled(loader: Any) -> Any:
    return pickle.loads(pickle.dumps(loader))  # noqa: S301  # made above


def values(batch: Any) -> list[int]:
    found = batch["number"] if isinstance(batch, dict) else batch.number
    return [int(number) for number in np.atleast_1d(np.asarray(found))]


@dataclass(frozen=True)
class Kind:
    """A kind of loader, and what it can do.

    Attributes
    ----------
    make : callable
        Returns a rank's loader.
    rows : Rows
        What it should read.
    others : tuple of callable
        Ways to make another loader over the same dataset; none if it has its own position.
    copies : tuple of callable
        Ways to copy a loader, with its own position.
    sets_position : tuple of callable
        Return what loads states and sets epochs, from a loader.
    take : callable
        Begins an iteration that takes some batches (None: all).
    most_kept : int
        How many iterators can be in use.
    counts : bool
        Whether states are requested with the number of batches.
    has_length, sets_epoch, traces : bool
        Whether the loader has these methods.
    peek : int
        How many batches are at most a peek.
    examples : int
        Number of programs to run in the gate; in `make test-all`, 18 times as many.
    """

    make: Callable[[Rows, Share, Data], Any]
    rows: Rows
    others: tuple[Callable[[Any], Any], ...] = ()
    copies: tuple[Callable[[Any], Any], ...] = ()
    sets_position: tuple[Callable[[Any], Any], ...] = (itself,)
    take: Callable[[Any, int | None], Iterator[Any]] = lambda loader, batches: iter(loader)
    most_kept: int = 100
    counts: bool = False
    has_length: bool = True
    sets_epoch: bool = True
    traces: bool = True
    peek: int = 1
    examples: int = 8


SHARED = (another, copy.copy)
BOTH = (copy.deepcopy, pickled)
EITHER = (itself, attrgetter("dataset"))
SAMPLES: dict[str, Any] = {
    "has_length": False,
    "traces": False,
    "most_kept": 0,
    "peek": 0,
    "examples": 5,
}
IN_SHARDS = Rows(UNEVEN, exact, shuffles_rows=False)
KINDS = {
    "exact": Kind(torch_loader, Rows(UNEVEN, exact), SHARED, BOTH, EITHER),
    "queue": Kind(torch_loader, Rows(UNEVEN, exact, 5, queue=4), SHARED, BOTH, EITHER),
    "windows": Kind(
        torch_loader, Rows(UNEVEN, exact, 7, window=20, drops_last=True), SHARED, BOTH, EITHER
    ),
    "counting itself": Kind(
        partial(torch_loader, loader=CountingItself),
        Rows(EVEN, elastic, 2),
        SHARED,
        BOTH,
        EITHER,
        examples=5,
    ),
    "own states": Kind(
        partial(torch_loader, dataset=OwnStates),
        Rows(UNEVEN, exact),
        sets_position=EITHER,
        most_kept=0,
        traces=False,
        examples=5,
    ),
    "own iteration": Kind(
        partial(torch_loader, dataset=Own),
        Rows(EVEN, exact),
        sets_position=EITHER,
        most_kept=0,
        has_length=False,
        traces=False,
        peek=0,
        examples=5,
    ),
    "workers": Kind(
        partial(torch_loader, num_workers=2, multiprocessing_context="fork"),
        Rows(UNEVEN, exact),
        copies=BOTH,
        sets_position=EITHER,
        examples=2,
    ),
    "elastic": Kind(torch_loader, Rows(EVEN, elastic, 2), SHARED, BOTH, EITHER),
    "converter": Kind(partial(converted, "make_torch_dataloader"), IN_SHARDS, copies=BOTH),
    "samples": Kind(streaming, Rows(EVEN, exact, 1), **SAMPLES),
    "elastic samples": Kind(streaming, Rows(EVEN, elastic, 1), **SAMPLES),
    "DataLoader": Kind(
        partial(over_reader, DataLoader), Rows(GROUPS, exact), has_length=False, examples=5
    ),
    "BatchedDataLoader": Kind(
        partial(over_reader, BatchedDataLoader), Rows(GROUPS, exact), has_length=False, examples=5
    ),
    "TensorFlow": Kind(
        partial(converted, "make_tf_dataset"),
        IN_SHARDS,
        take=take_of_tf,
        most_kept=0,
        counts=True,
        has_length=False,
        sets_epoch=False,
        examples=1,
    ),
    "TensorFlow in Python": Kind(
        partial(converted, "make_tf_dataset"),
        IN_SHARDS,
        most_kept=1,
        has_length=False,
        sets_epoch=False,
        examples=1,
    ),
}


@dataclass(eq=False)
class Rank:
    """A loader, what it should do, and its running iterators."""

    loader: Any
    model: ModelLoader
    running: list[Running] = field(default_factory=list)


class Program:
    """A random program that ranks run, each with its own peeks."""

    def __init__(self, kind: Kind, data: Data, seed: int) -> None:
        self.kind, self.data, self.draw = kind, data, random.Random(seed)
        self.rows = replace(kind.rows, num_epochs=self.draw.randint(1, 2))
        self.ranks: list[Rank] = []
        self.states: list[tuple[Any, Place]] = []
        self.steps: list[Any] = [self.rows.num_epochs]
        self.make(self.draw.randint(1, 3))

    def run(self, steps: int) -> None:
        possible = [self.read, self.read, self.peek, self.resume]
        if self.kind.most_kept:
            possible += [self.read_on, self.read_on, self.close_oldest]
        if self.kind.sets_epoch:
            possible.append(self.set_epoch)
        if self.kind.others:
            possible.append(self.make_other_loaders)
        if self.kind.copies:
            possible.append(self.copy_loaders)
        self.check()
        for _ in range(steps):
            self.draw.choice(possible)()
            self.check()
        self.close()

    def record(self, *step: object) -> None:
        self.steps.append(step)

    def close(self) -> None:
        for rank in self.ranks:
            while rank.running:
                leave(rank.running.pop())

    def make(self, ranks: int) -> None:
        self.record("make", ranks)
        self.close()
        self.ranks = [
            Rank(
                self.kind.make(self.rows, (rank, ranks), self.data),
                ModelLoader(self.counting(rank, ranks)),
            )
            for rank in range(ranks)
        ]

    def counting(self, rank: int, ranks: int, **options: Any) -> Counting:
        # A number of batches that is passed to `state_dict` counts, also after a peek.
        counts_peeks = self.rows.batches_of is elastic or self.kind.counts
        return Counting(self.rows, rank, ranks, self.kind.peek, counts_peeks, **options)

    def check(self) -> None:
        """Compare lengths, states, and a trace of the remaining batches with the model."""
        states: dict[Place, Any] = {}
        traced_rank = len(self.steps) % len(self.ranks)
        for number, rank in enumerate(self.ranks):
            place = rank.model.place
            if self.kind.has_length:
                whole = self.rows.batches(Place(), number, len(self.ranks))
                assert len(rank.loader) == len(list(whole)), self.steps
            state = self.state_of(rank)
            if place.done:  # before that, MosaicML Streaming's states have two forms
                found = state["epoch"], state["sample_in_epoch"]
                assert found == self.rows.in_epoch(place), self.steps
                assert state == states.setdefault(place, state), self.steps
            if self.kind.traces and number == traced_rank:
                left = self.rows.batches(place, number, len(self.ranks))
                traced = rank.loader.trace(state).rows(slice(0, None), number).tolist()
                assert traced == [row for batch, _ in left for row in batch], self.steps
        self.states.append((state, place))

    def state_of(self, rank: Rank) -> Any:
        latest = rank.model.current if self.kind.counts else None
        state = rank.loader.state_dict(**({"batches": latest.used} if latest else {}))
        return json.loads(json.dumps(state))

    def take(self, rank: Rank, running: Any, batches: int | None) -> None:
        """Take batches from a running iterator, and check each one."""
        iterator, model, iteration = running
        for batch in islice(iterator, batches):
            assert values(batch) == model.take(iteration), self.steps
            batches = None if batches is None else batches - 1
        if batches != 0:
            assert model.take(iteration) is None, self.steps
            rank.running = [one for one in rank.running if one is not running]

    def iterate(self, rank: Rank, batches: int | None, *, keeps: bool = False) -> None:
        while len(rank.running) >= max(self.kind.most_kept, 1):
            leave(rank.running.pop(0))
        iterator = self.kind.take(rank.loader, batches)
        if batches == 0:
            close(iterator)
            return
        running = iterator, rank.model, rank.model.begin()
        if keeps:
            rank.running.append(running)
        self.take(rank, running, batches)
        if not keeps:
            leave(running)

    def read(self) -> None:
        batches, keeps = self.draw.choice([None, *range(9)]), self.draw.random() < 0.5
        keeps = keeps and self.kind.most_kept > 0 and batches is not None
        self.record("read", batches, keeps)
        for rank in self.ranks:
            self.iterate(rank, batches, keeps=keeps)

    def peek(self) -> None:
        for number, rank in enumerate(self.ranks):
            if self.draw.random() < 0.5:
                self.record("peek", number)
                self.iterate(rank, 1)

    def read_on(self) -> None:
        number, batches = self.draw.randint(0, 2), self.draw.choice([None, *range(1, 9)])
        self.record("read on", number, batches)
        for rank in self.ranks:
            if rank.running:
                self.take(rank, rank.running[number % len(rank.running)], batches)

    def close_oldest(self) -> None:
        self.record("close")
        for rank in self.ranks:
            if rank.running:
                leave(rank.running.pop(0))

    def resume(self) -> None:
        """Load a state into these loaders, or into new ones of another world."""
        state, place = self.draw.choice(self.states[-4:])
        is_new, here = self.draw.random() < 0.5, len(self.ranks)
        here = self.draw.randint(1, 3) if is_new else here
        if not self.rows.are_divisible(place, here):
            return
        if is_new:
            self.make(here)
        left = () if place.done == self.rows.total else self.rows.batches(place, 0, here)
        after = [place, *(after for _, after in left)]
        skipped = self.draw.choice([0, 0, 1, 3]) if self.kind.traces else 0
        skipped = min(skipped, len(after) - 1)
        loads = itself if skipped else self.draw.choice(self.kind.sets_position)
        self.record("load", place, skipped, loads)
        for rank in self.ranks:
            options = {"skip_batches": skipped} if skipped else {}
            loads(rank.loader).load_state_dict(state, **options)
            rank.model.counting.load(after[skipped])

    def set_epoch(self) -> None:
        place = self.ranks[0].model.counting.following
        epoch = max(self.rows.epoch_reached(place) + self.draw.randint(-1, 2), 0)
        sets = self.draw.choice(self.kind.sets_position)
        self.record("set epoch", epoch, sets)
        for rank in self.ranks:
            sets(rank.loader).set_epoch(epoch)
            rank.model.counting.set_epoch(epoch)

    def make_other_loaders(self) -> None:
        make = self.draw.choice(self.kind.others)
        self.record("another", make)
        for rank in self.ranks:
            rank.loader = make(rank.loader)
            rank.model = ModelLoader(rank.model.counting)

    def copy_loaders(self) -> None:
        copied = self.draw.choice(self.kind.copies)
        self.record("copy", copied)
        copies = [(copied(rank.loader), rank.model.place_of_copy) for rank in self.ranks]
        self.close()
        for number, (loader, place) in enumerate(copies):
            counting = self.counting(number, len(self.ranks), next=place)
            self.ranks[number] = Rank(loader, ModelLoader(counting))


def leave(running: Running) -> None:
    iterator, _, iteration = running
    close(iterator)
    iteration.is_left = True


def close(iterator: Any) -> None:
    if hasattr(iterator, "close"):
        iterator.close()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Data:
    directory: Path = tmp_path_factory.mktemp("iterations")
    return Data(
        write_numbers(directory / "even", EVEN[-1], tasks=4).url,
        write_numbers(directory / "uneven", UNEVEN[-1], tasks=4).url,
        write_parquet(directory / "parquet", {"number": range(GROUPS[-1])}, 15),
    )


#: Programs of each kind. More of them, and those with worker processes, run in `make test-all`.
PROGRAMS = [
    pytest.param(name, seeds, marks=pytest.mark.long if is_long else ())
    for name, kind in KINDS.items()
    for is_long, seeds in (
        (name == "workers", range(kind.examples)),
        (True, range(kind.examples, kind.examples * 18)),
    )
]


@pytest.mark.parametrize(("name", "seeds"), PROGRAMS)
def test_loaders_read_the_rows_of_the_model(name: str, seeds: range, data: Data) -> None:
    for seed in seeds:
        Program(KINDS[name], data, seed).run(12)
