"""Loaders read the rows of a model: `tests.kit.row_model`, a list of rows and the documented rule.

The machine runs random programs on one to three ranks, in one process. Programs iterate, stop,
peek, keep iterators, save, load here or in another world, skip, set epochs, copy and pickle. After
each step, the machine compares rows, lengths, states and traces with the model.
"""

import copy
import json
import pickle
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
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
    order = ExactOrder(rows.seed, True, rows.shuffles_rows, rows.window, *share)
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
    window = {"shuffling_queue_capacity": rows.window, "seed": rows.seed}
    return getattr(converter, method)(rows.batch_size, **options, **window)


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
        Two ways to make another loader over the same dataset; none if it has its own position.
    copies : tuple of callable
        Two ways to copy a loader, with its own position.
    take : callable
        Begins an iteration that takes some batches (None: all).
    keeps : bool
        Whether several iterators can be in use.
    is_tf : bool
        Whether states need the number of batches.
    has_length, sets_epoch, traces : bool
        Whether the loader has these methods.
    peek : int
        How many batches are at most a peek.
    examples : int
        Number of programs to run in the gate; in `make test-all`, 30 times as many.
    """

    make: Callable[[Rows, Share, Data], Any]
    rows: Rows
    others: tuple[Callable[[Any], Any], ...] = ()
    copies: tuple[Callable[[Any], Any], ...] = ()
    take: Callable[[Any, int | None], Iterator[Any]] = lambda loader, batches: iter(loader)
    keeps: bool = True
    is_tf: bool = False
    has_length: bool = True
    sets_epoch: bool = True
    traces: bool = True
    peek: int = 1
    examples: int = 30


SHARED = (another, copy.copy)
BOTH = (copy.deepcopy, pickled)
IN_SHARDS = Rows(UNEVEN, exact, shuffles_rows=False)
KINDS = {
    "exact": Kind(torch_loader, Rows(UNEVEN, exact), SHARED, BOTH),
    "windows": Kind(torch_loader, Rows(UNEVEN, exact, 7, window=20, drops_last=True), SHARED, BOTH),
    "counting itself": Kind(
        partial(torch_loader, loader=CountingItself), Rows(EVEN, elastic), SHARED, BOTH, examples=10
    ),
    "own states": Kind(
        partial(torch_loader, dataset=OwnStates),
        Rows(UNEVEN, exact),
        SHARED,
        BOTH,
        traces=False,
        examples=10,
    ),
    "own iteration": Kind(
        partial(torch_loader, dataset=Own),
        Rows(EVEN, exact),
        SHARED,
        has_length=False,
        traces=False,
        peek=0,
        examples=10,
    ),
    "workers": Kind(
        partial(torch_loader, num_workers=2, multiprocessing_context="fork"),
        Rows(UNEVEN, exact),
        copies=BOTH,
        examples=2,
    ),
    "elastic": Kind(torch_loader, Rows(EVEN, elastic), SHARED, BOTH),
    "converter": Kind(partial(converted, "make_torch_dataloader"), IN_SHARDS, copies=BOTH),
    "samples": Kind(
        streaming, Rows(EVEN, exact, 1), has_length=False, traces=False, peek=0, keeps=False
    ),
    "DataLoader": Kind(partial(over_reader, DataLoader), Rows(GROUPS, exact), has_length=False),
    "BatchedDataLoader": Kind(
        partial(over_reader, BatchedDataLoader), Rows(GROUPS, exact), has_length=False
    ),
    "TensorFlow": Kind(
        partial(converted, "make_tf_dataset"),
        IN_SHARDS,
        take=take_of_tf,
        keeps=False,
        is_tf=True,
        has_length=False,
        sets_epoch=False,
        examples=4,
    ),
}


@dataclass(eq=False)
class Rank:
    """A loader, what it should do, and its running iterators."""

    loader: Any
    model: ModelLoader
    running: list[tuple[Any, ModelLoader, Iteration]] = field(default_factory=list)


class Program(RuleBasedStateMachine):
    """Ranks that run the same program, but for peeks."""

    def __init__(self, kind: Kind, data: Data) -> None:
        super().__init__()
        self.kind, self.data = kind, data
        self.ranks: list[Rank] = []
        self.states: list[tuple[Any, Place]] = []

    @initialize(ranks=st.integers(1, 3), num_epochs=st.integers(1, 2))
    def begin(self, ranks: int, num_epochs: int) -> None:
        self.rows = replace(self.kind.rows, num_epochs=num_epochs)
        self.make(ranks)

    def make(self, ranks: int) -> None:
        for rank in self.ranks:
            for iterator, *_ in rank.running:
                close(iterator)
        self.ranks = [
            Rank(
                self.kind.make(self.rows, (rank, ranks), self.data),
                ModelLoader(Counting(self.rows, rank, ranks, self.kind.peek)),
            )
            for rank in range(ranks)
        ]

    @invariant()
    def loaders_agree_with_model(self) -> None:
        states: dict[Place, Any] = {}
        for number, rank in enumerate(self.ranks):
            place = rank.model.place
            if self.kind.has_length:
                whole = self.rows.batches(Place(), number, len(self.ranks))
                assert len(rank.loader) == len(list(whole))
            state = self.state_of(rank)
            if place.done:  # before that, MosaicML Streaming's states have two forms
                found = state["epoch"], state["sample_in_epoch"]
                assert found == self.rows.in_epoch(place)
                assert state == states.setdefault(place, state)
            if self.kind.traces:
                left = self.rows.batches(place, number, len(self.ranks))
                trace = rank.loader.trace(state)
                traced = trace.rows(slice(0, None), number).tolist()
                assert traced == [row for batch, _ in left for row in batch]
        if not self.states or (state, place) != self.states[-1]:
            self.states.append((state, place))

    def state_of(self, rank: Rank) -> Any:
        number = {} if rank.model.current is None else {"batches": rank.model.current.used}
        state = rank.loader.state_dict(**(number if self.kind.is_tf else {}))
        return json.loads(json.dumps(state))

    def take(self, rank: Rank, running: Any, batches: int | None) -> None:
        """Take batches from a running iterator, and check each one."""
        iterator, model, iteration = running
        for batch in islice(iterator, batches):
            assert values(batch) == model.take(iteration)
            batches = None if batches is None else batches - 1
        if batches != 0:
            assert model.take(iteration) is None
            rank.running = [one for one in rank.running if one is not running]

    def iterate(self, rank: Rank, batches: int | None, *, keeps: bool = False) -> None:
        iterator = self.kind.take(rank.loader, batches)
        if batches == 0:
            close(iterator)
            return
        running = iterator, rank.model, rank.model.begin()
        self.take(rank, running, batches)
        if keeps:
            rank.running.append(running)
        else:
            close(iterator)

    @rule(batches=st.one_of(st.none(), st.integers(0, 14)), keeps=st.booleans())
    def read(self, batches: int | None, keeps: bool) -> None:
        for rank in self.ranks:
            self.iterate(rank, batches, keeps=keeps and self.kind.keeps and batches is not None)

    @rule(ranks=st.sets(st.integers(0, 2), min_size=1))
    def peek(self, ranks: set[int]) -> None:
        for rank in ranks & set(range(len(self.ranks))):
            self.iterate(self.ranks[rank], 1)

    @precondition(lambda self: any(rank.running for rank in self.ranks))
    @rule(number=st.integers(0, 3), batches=st.one_of(st.none(), st.integers(1, 9)))
    def read_on(self, number: int, batches: int | None) -> None:
        for rank in self.ranks:
            if rank.running:
                self.take(rank, rank.running[number % len(rank.running)], batches)

    @precondition(lambda self: any(rank.running for rank in self.ranks))
    @rule()
    def close_oldest(self) -> None:
        for rank in self.ranks:
            if rank.running:
                close(rank.running.pop(0)[0])

    @rule(
        number=st.integers(0, 9),
        ranks=st.one_of(st.none(), st.integers(1, 3)),
        skipped=st.integers(0, 4),
    )
    def resume(self, number: int, ranks: int | None, skipped: int) -> None:
        """Load a state into these loaders, or into new ones of another world."""
        state, place = self.states[-1 - number % len(self.states)]
        here = len(self.ranks) if ranks is None else ranks
        if not self.rows.are_divisible(place, here):
            return
        if ranks is not None:
            self.make(ranks)
        left = () if place.done == self.rows.total else self.rows.batches(place, 0, here)
        after = [place, *(after for _, after in left)]
        skipped = min(skipped, len(after) - 1) if self.kind.traces else 0
        for rank in self.ranks:
            rank.loader.load_state_dict(state, **({"skip_batches": skipped} if skipped else {}))
            rank.model.counting.load(after[skipped])

    @precondition(lambda self: self.kind.sets_epoch)
    @rule(ahead=st.integers(-1, 2))
    def set_epoch(self, ahead: int) -> None:
        place = self.ranks[0].model.counting.following
        epoch = max(self.rows.epoch_reached(place) + ahead, 0)
        for rank in self.ranks:
            rank.loader.set_epoch(epoch)
            rank.model.counting.set_epoch(epoch)

    @precondition(lambda self: self.kind.others)
    @rule(is_copy=st.booleans())
    def make_other_loaders(self, is_copy: bool) -> None:
        for rank in self.ranks:
            rank.loader = self.kind.others[is_copy](rank.loader)
            rank.model = ModelLoader(rank.model.counting)

    @precondition(lambda self: self.kind.copies)
    @rule(is_pickled=st.booleans())
    def copy_loaders(self, is_pickled: bool) -> None:
        for number, rank in enumerate(self.ranks):
            loader = self.kind.copies[is_pickled](rank.loader)
            place = rank.model.place_of_copy
            counting = Counting(self.rows, number, len(self.ranks), self.kind.peek, place)
            for iterator, *_ in rank.running:
                close(iterator)
            self.ranks[number] = Rank(loader, ModelLoader(counting))

    def teardown(self) -> None:
        for rank in self.ranks:
            for iterator, *_ in rank.running:
                close(iterator)


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


@pytest.mark.parametrize(
    "name", [*(n for n in KINDS if n != "workers"), pytest.param("workers", marks=pytest.mark.long)]
)
def test_loaders_read_the_rows_of_the_model(name: str, data: Data) -> None:
    kind, is_repeatable = KINDS[name], settings.default.derandomize  # type: ignore[union-attr]
    run_state_machine_as_test(
        lambda: Program(kind, data),
        settings=settings(
            max_examples=kind.examples * (1 if is_repeatable else 30),
            stateful_step_count=10,
            phases=(Phase.reuse, Phase.generate, Phase.shrink),  # explaining takes minutes
        ),
    )
