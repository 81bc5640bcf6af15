"""When an iteration counts: ranks that peek, stop, resume and copy read the same epochs.

The machine runs one program on one to three ranks, in one process, and knows where each iteration
must begin. A peek on single ranks must not change that.
"""

import copy
import json
import pickle
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.kit.small_datasets import write_numbers

from mdstorm import make_batch_reader
from mdstorm.pytorch import BatchedDataLoader, DataLoader
from mdstorm.spark import SparkDatasetConverter
from mdstorm_backend import StreamingDataLoader, StreamingDataset, open_dataset
from mdstorm_backend.order import World, order_named, order_names

ROWS = 60
#: Ranks that divide the rows into whole batches, so that all ranks have as many.
BATCH = 5


def in_order(name: str, url: str, rank: int, ranks: int) -> Any:
    order = order_named(name).of_reader(5, True, True, 0).share_of(World(rank, ranks))
    return StreamingDataLoader(StreamingDataset(local=url, order=order), batch_size=BATCH)


def elastic(url: str, rank: int, ranks: int) -> Any:
    world, options = (rank, ranks), {"shuffle": True, "batch_size": BATCH}
    return StreamingDataLoader(StreamingDataset(local=url, world=world, **options), BATCH)


def over_reader(kind: Callable[..., Any], url: str, rank: int, ranks: int) -> Any:
    reader = make_batch_reader(url, cur_shard=rank, shard_count=ranks, seed=5, shuffle_rows=True)
    return kind(reader, batch_size=BATCH)


def converted(url: str, rank: int, ranks: int) -> dict[str, Any]:
    share = {"cur_shard": rank, "shard_count": ranks}
    return {**share, "batch_size": BATCH, "num_epochs": 1, "seed": 5}


def converter_of(url: str) -> SparkDatasetConverter:
    dataset = open_dataset(url)
    return SparkDatasetConverter(dataset.url, dataset.file_urls, len(dataset))


def converter_torch(url: str, rank: int, ranks: int) -> Any:
    return converter_of(url).make_torch_dataloader(**converted(url, rank, ranks))


def converter_tf(url: str, rank: int, ranks: int) -> Any:
    return converter_of(url).make_tf_dataset(**converted(url, rank, ranks))


def another_torch(loader: Any) -> Any:
    return StreamingDataLoader(loader.dataset, batch_size=BATCH)


def in_python(source: Any, batches: int | None) -> Iterator[Any]:
    iterator = iter(source)
    yield from islice(iterator, batches)
    if hasattr(iterator, "close"):
        iterator.close()


def in_take(source: Any, batches: int | None) -> Iterator[Any]:
    yield from source if batches is None else source.take(batches)


@dataclass(frozen=True)
class Kind:
    """A kind of loader.

    Attributes
    ----------
    make : callable
        Returns a rank's loader.
    another : callable or None
        Returns another loader over the same dataset; None if other loaders have a position of
        their own, as over readers.
    takes : tuple of callable
        Ways to take some batches (None: all).
    copies : tuple of callable
        Ways to copy a loader.
    examples : int or None
        Number of programs to run; None for the profile's number.
    """

    make: Callable[[str, int, int], Any]
    another: Callable[[Any], Any] | None = None
    takes: tuple[Callable[..., Iterator[Any]], ...] = (in_python,)
    copies: tuple[Callable[[Any], Any], ...] = ()
    examples: int | None = None


def pickled(loader: Any) -> Any:
    return pickle.loads(pickle.dumps(loader))  # noqa: S301  # made above


KINDS = {
    **{
        name: Kind(partial(in_order, name), another_torch, copies=(copy.deepcopy, pickled))
        for name in order_names()
    },
    "elastic": Kind(elastic, another_torch, copies=(copy.deepcopy, pickled)),
    "converter": Kind(converter_torch, copies=(copy.deepcopy, pickled)),
    "DataLoader": Kind(partial(over_reader, DataLoader)),
    "BatchedDataLoader": Kind(partial(over_reader, BatchedDataLoader)),
    "TensorFlow": Kind(converter_tf, takes=(in_python, in_take), examples=6),
}


def numbers(batch: Any) -> list[int]:
    found = batch["number"] if isinstance(batch, dict) else batch.number
    return [int(number) for number in found.numpy()]


class Program(RuleBasedStateMachine):
    """Ranks that run the same program, but for peeks."""

    def __init__(self, kind: Kind, url: str) -> None:
        super().__init__()
        self.kind, self.url = kind, url
        #: The epoch where the next iteration begins, and how many of its batches are over.
        self.epoch = self.over = 0
        #: Whether an iteration of one batch is a peek.
        self.is_peek = True
        #: Whether these loaders have begun an iteration, so that their state is within it.
        self.has_begun = False
        self.states: list[Any] = []
        self.saved = (0, 0)
        self.epochs: list[list[list[list[int]]]] = []

    @initialize(ranks=st.integers(1, 3))
    def begin(self, ranks: int) -> None:
        self.ranks, self.batches = range(ranks), ROWS // ranks // BATCH
        self.loaders, self.undisturbed = self.made(), self.made()

    def made(self) -> list[Any]:
        return [self.kind.make(self.url, rank, len(self.ranks)) for rank in self.ranks]

    def batches_of(self, epoch: int) -> list[list[list[int]]]:
        """Return each rank's batches of an epoch, as loaders read them that are never left."""
        while epoch >= len(self.epochs):
            read = [[numbers(batch) for batch in loader] for loader in self.undisturbed]
            self.epochs.append(read)
        return self.epochs[epoch]

    def take(self, batches: int | None, draw: random.Random) -> None:
        """Let each rank take batches, and check that they are the next ones."""
        self.peek(draw)
        expected, states = self.batches_of(self.epoch), []
        for loader, whole in zip(self.loaders, expected, strict=True):
            assert len(whole) == self.batches
            read = draw.choice(self.kind.takes)(loader, batches)
            found = [numbers(batch) for batch in read]
            stop = None if batches is None else self.over + batches
            assert found == whole[self.over : stop], (self.epoch, self.over, batches)
            states.append(self.state_of(loader, len(found)))
        self.states = states
        last = self.batches if stop is None else min(stop, self.batches)
        self.saved = self.epoch, last
        self.epoch, self.over, self.is_peek = self.epoch + 1, 0, False
        self.has_begun = True

    def state_of(self, loader: Any, taken: int) -> Any:
        is_tf = len(self.kind.takes) > 1
        state = loader.state_dict(batches=taken) if is_tf else loader.state_dict()
        return json.loads(json.dumps(state))

    def peek(self, draw: random.Random) -> None:
        for loader in self.loaders:
            if self.is_peek and draw.random() < 0.3:
                list(draw.choice(self.kind.takes)(loader, 1))

    @rule(draw=st.randoms(use_true_random=False))
    def read_all(self, draw: random.Random) -> None:
        self.take(None, draw)

    @rule(batches=st.integers(2, 12), draw=st.randoms(use_true_random=False))
    def read_some(self, batches: int, draw: random.Random) -> None:
        # One batch, if only one remains, is a peek.
        if min(batches, self.batches - self.over) > 1 or not self.is_peek:
            self.take(batches, draw)

    @precondition(lambda self: not self.is_peek)
    @rule(draw=st.randoms(use_true_random=False))
    def read_one(self, draw: random.Random) -> None:
        self.take(1, draw)

    @rule()
    def begin_and_take_nothing(self) -> None:
        for loader in self.loaders:
            iterator = iter(loader)
            del iterator

    @precondition(lambda self: self.states)
    @rule(rank=st.integers(0, 2), is_new=st.booleans())
    def resume(self, rank: int, is_new: bool) -> None:
        if is_new:
            self.loaders = self.made()
        for loader in self.loaders:
            loader.load_state_dict(self.states[rank % len(self.states)])
        self.continue_from_state()

    def continue_from_state(self) -> None:
        self.epoch, self.over = self.saved
        if self.over == self.batches:
            self.epoch, self.over = self.epoch + 1, 0
        self.is_peek = True

    @precondition(lambda self: hasattr(self.loaders[0], "set_epoch"))
    @rule(epoch=st.integers(0, 4))
    def set_epoch(self, epoch: int) -> None:
        for loader in self.loaders:
            loader.set_epoch(epoch)
        if epoch != self.epoch or not self.over:
            self.epoch, self.over = epoch, 0
            self.is_peek = True

    @precondition(lambda self: self.kind.another is not None)
    @rule()
    def make_other_loaders(self) -> None:
        assert self.kind.another is not None
        self.loaders = [self.kind.another(loader) for loader in self.loaders]
        self.has_begun = False

    @precondition(lambda self: self.kind.copies and self.states)
    @rule(draw=st.randoms(use_true_random=False))
    def copy_loaders(self, draw: random.Random) -> None:
        self.loaders = [draw.choice(self.kind.copies)(loader) for loader in self.loaders]
        if not self.is_peek and self.has_begun:  # they continue where a state of the original would
            self.continue_from_state()
        self.is_peek = True


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    directory: Path = tmp_path_factory.mktemp("iterations") / "data"
    return write_numbers(directory, ROWS, tasks=4).url


@pytest.mark.parametrize("kind", KINDS)
def test_ranks_that_peek_read_the_same_epochs(kind: str, url: str) -> None:
    chosen = KINDS[kind]
    examples = chosen.examples or settings.default.max_examples  # type: ignore[union-attr]
    run_state_machine_as_test(
        lambda: Program(chosen, url),
        settings=settings(max_examples=examples, stateful_step_count=8),
    )
