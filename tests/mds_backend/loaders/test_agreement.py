"""Ranks that begin different things are told, and nothing else happens to training."""

import os
import re
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import torch.distributed as dist
from tests.mds_backend.loaders.loaders import Filter, Launch, rows, taken
from tests.programs import free_port

from mdstorm_backend import ExactOrder, StreamingDataLoader, StreamingDataset
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.loaders import agreement

ROWS, SHARDS, BATCH = 120, 4, 10


class Token:
    """Stands in for a process group."""


class Hanging:
    """A store whose host answers no more."""

    def __init__(self) -> None:
        self.is_gone = threading.Event()

    def compare_set(self, *_: str) -> bytes:
        self.is_gone.wait()
        raise RuntimeError("Connection reset by peer")


ODD = Filter(lambda number: number % 2 == 1)
STORES: dict[str, Callable[[Path], Any]] = {
    "hash": lambda _: dist.HashStore(),
    "file": lambda at: dist.FileStore(str(at / "store"), 2),
    "prefix": lambda _: dist.PrefixStore("default_pg", dist.HashStore()),
    "tcp": lambda _: dist.TCPStore("127.0.0.1", free_port(), 1, is_master=True),
}


MADE: list[agreement.Ranks] = []


class World:
    """Ranks of one process group, simulated one after the other in this process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, url: str, store: Any, size: int) -> None:
        self.patch, self.url, self.store, self.size = monkeypatch, url, store, size
        self.groups = [Token() for _ in range(size)]
        self.ranks = [agreement.Ranks() for _ in range(size)]
        MADE.extend(self.ranks)

    def be(self, rank: int) -> None:
        """Go on as a rank."""
        group = agreement.Group(self.groups[rank], self.store, rank, self.size)
        self.patch.setattr(agreement, "find_group", lambda: group)
        self.patch.setattr(agreement, "_ranks", self.ranks[rank])
        self.patch.setattr(agreement, "_told", set())
        self.patch.setenv("RANK", str(rank))
        self.patch.setenv("WORLD_SIZE", str(self.size))

    def loader(self, order: Any = "elastic", size: int = BATCH, **options: Any) -> Any:
        if order == "elastic":
            dataset = StreamingDataset(local=self.url, batch_size=size, shuffle=True, **options)
        else:
            dataset = StreamingDataset(local=self.url, order=order, **options)
        return StreamingDataLoader(dataset, size)

    def told(self, read: Callable[[Any, int], Any], *loader: Any, **options: Any) -> list[str]:
        """Let all ranks read, and return what they are told."""
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            for rank in range(self.size):
                self.be(rank)
                read(self.loader(*loader, **options), rank)
                self.hear()
        return [f"{one.message}" for one in found]

    def hear(self) -> None:
        """Wait for what was asked, and say it."""
        ranks = agreement._ranks
        asked = threading.Event()
        ranks._ask(asked.set)
        assert asked.wait(60)
        ranks.tell()


@pytest.fixture(autouse=True)
def _no_thread_is_left(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(agreement, "_ranks", agreement.Ranks())
    MADE.append(agreement._ranks)
    yield
    while MADE:
        ranks = MADE.pop()
        ranks.finish()
        assert ranks._thread is None or not ranks._thread.is_alive()


@pytest.fixture(params=list(STORES))
def world(request: Any, monkeypatch: pytest.MonkeyPatch, url: str, tmp_path: Path) -> World:
    return World(monkeypatch, url, STORES[request.param](tmp_path), 2)


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch, url: str) -> World:
    return World(monkeypatch, url, dist.HashStore(), 2)


def test_a_rank_with_another_batch_size_is_told(world: World) -> None:
    def read(loader: Any, rank: int) -> None:
        rows(world.loader(size=BATCH + 2 * rank))

    (found,) = world.told(read)
    assert "rank 1 begins epoch 0" in found
    assert "batch size 12, and rank 0 with 10" in found


def test_a_seed_for_each_rank_is_an_error_in_the_elastic_order(world: World) -> None:
    world.be(0)
    rows(world.loader(shuffle_seed=42))
    world.hear()
    world.be(1)
    batches = iter(world.loader(shuffle_seed=43))
    message = r"seed 43, and rank 0 with 42.*give all ranks"
    with pytest.raises(InvalidArgumentError, match=message):
        next(batches), next(batches), world.hear()
    world.be(1)
    assert rows(world.loader(shuffle_seed=44, check_ranks=False))


def test_a_seed_for_each_rank_is_a_warning_where_lanes_stay(pair: World) -> None:
    def read(loader: Any, rank: int) -> None:
        rows(pair.loader(ExactOrder(seed=1 + rank, shuffle_rows=True)))

    (found,) = pair.told(read)
    assert "seed 2, and rank 0 with 1" in found
    unshuffled = World(pair.patch, pair.url, dist.HashStore(), 2)
    assert not unshuffled.told(lambda loader, rank: rows(unshuffled.loader(ExactOrder(seed=5))))


def test_what_is_found_after_the_last_batch_is_said_as_the_process_ends(pair: World) -> None:
    def read_and_end(rank: int) -> None:
        pair.be(rank)
        rows(pair.loader(size=BATCH + rank))
        pair.ranks[rank].finish()

    read_and_end(0)
    with pytest.warns(UserWarning, match="batch size 11, and rank 0 with 10"):
        read_and_end(1)


def _state_after_two_batches(world: World, order: Any) -> Any:
    world.be(0)
    loader = world.loader(order)
    taken(loader, 2)
    return loader.state_dict()


def test_a_rank_that_resumes_alone_is_told(pair: World) -> None:
    state = _state_after_two_batches(pair, ExactOrder())
    fresh = World(pair.patch, pair.url, dist.HashStore(), 2)

    def resume(loader: Any, rank: int) -> None:
        if rank == 1:
            loader.load_state_dict(state)
        rows(loader)

    (found,) = fresh.told(resume, ExactOrder())
    assert "samples consumed 40, and rank 0 with 0" in found


@pytest.mark.parametrize("looking", [0, 1])
@pytest.mark.parametrize("order", ["elastic", ExactOrder(shuffle_rows=True)], ids=["e", "x"])
def test_a_look_before_all_ranks_resume_is_told_to_nobody(
    pair: World, looking: int, order: Any
) -> None:
    state = _state_after_two_batches(pair, order)
    fresh = World(pair.patch, pair.url, dist.HashStore(), 2)

    def resume(loader: Any, rank: int) -> None:
        if rank == looking:
            look(loader)
        loader.load_state_dict(state)
        rows(loader)

    assert fresh.told(resume, order) == []


def test_passes_that_begin_in_threads_are_not_compared_by_their_number(pair: World) -> None:
    def read(loader: Any, rank: int) -> None:
        in_turn = [loader, in_epoch(5, pair.loader())]
        with ThreadPoolExecutor(1) as thread:
            for each in in_turn if rank else reversed(in_turn):
                thread.submit(rows, each).result()

    assert pair.told(read) == []


def look(loader: Any) -> None:
    next(iter(loader))


def in_epoch(epoch: int, loader: Any) -> Any:
    loader.set_epoch(epoch)
    return loader


def bar(batches: Any) -> Iterator[Any]:
    yield from batches


#: What is not the same on all ranks, and what they are told of it, message by message.
TOLD: dict[str, tuple[Callable[[World, Any, int], object], list[str]]] = {
    "a look of several batches": (
        lambda world, loader, rank: (
            rank == 1 and taken(loader, 3),
            [rows(loader) for _ in range(2)],
        ),
        [
            "with epoch number 1, and rank 0 with 0",
            "rank 1 begins epoch 1.*batches of the epoch before 3, and rank 0 with 6.*set_epoch",
        ],
    ),
    "a pass of one rank alone, at the next one of all": (
        lambda world, loader, rank: [(rows(loader), rank == 0 and rows(loader)) for _ in range(3)],
        [
            "rank 1 begins epoch 1.*with epoch number 1, and rank 0 with 2.*"
            "make the same loaders on all ranks"
        ],
    ),
    "the batch sizes of later loaders": (
        lambda world, loader, rank: (rows(loader), rows(world.loader(size=7 + rank))),
        ["batch size 8, and rank 0 with 7"],
    ),
    "one share on two ranks": (
        lambda world, loader, rank: rows(world.loader(ExactOrder(rank=0, world_size=2))),
        ["ranks 0 and 1 both read share 0 of 2"],
    ),
    "more shares than ranks": (
        lambda world, loader, rank: rows(world.loader(ExactOrder(rank=rank, world_size=3))),
        ["split into 3 shares, and there are 2 ranks"] * 2,  # one on each rank
    ),
    "filters, by which ranks may have unequal numbers of batches": (
        lambda world, loader, rank: rows(world.loader(ExactOrder(), transform=ODD)),
        ["Join"] * 2,
    ),
}


@pytest.mark.parametrize("program", list(TOLD))
def test_programs_whose_ranks_differ_are_told(pair: World, program: str) -> None:
    read, expected = TOLD[program]
    found = pair.told(lambda loader, rank: read(pair, loader, rank))
    for message, words in zip(found, expected, strict=True):
        assert re.search(words, message, re.DOTALL)


#: What is right, or the same on all ranks.
QUIET: dict[str, Callable[[World, Any, int], object]] = {
    "epochs": lambda world, loader, rank: [rows(loader) for _ in range(3)],
    "a rank ahead": lambda world, loader, rank: [rows(loader) for _ in range(4 - rank)],
    "a look of rank 0": lambda world, loader, rank: (
        rank or look(loader),
        [rows(loader) for _ in range(2)],
    ),
    "a batch of each epoch": lambda world, loader, rank: [look(loader) for _ in range(5)],
    "set_epoch": lambda world, loader, rank: [
        (loader.set_epoch(epoch), rows(loader)) for epoch in range(3)
    ],
    "two loaders over one dataset": lambda world, loader, rank: [
        rows(each) for each in (loader, StreamingDataLoader(loader.dataset, 7)) for _ in range(2)
    ],
    "another loader on rank 0 alone": lambda world, loader, rank: (
        rows(loader),
        rank or rows(world.loader(size=7)),
        rows(loader),
    ),
    "another loader on rank 0 alone, in the epoch to come": lambda world, loader, rank: (
        rows(loader),
        rank or rows(in_epoch(1, world.loader(size=7))),
        rows(loader),
    ),
    "a few batches of another loader on rank 0 alone": lambda world, loader, rank: [
        (rows(loader), rank or rows(islice(in_epoch(epoch, world.loader()), 3)))
        for epoch in range(3)
    ],
    "a progress bar and a loader of the same size on rank 0 alone": lambda world, loader, rank: [
        (rows(loader if rank else bar(loader)), rank or rows(world.loader())) for _ in range(3)
    ],
    "all rows on rank 0 alone": lambda world, loader, rank: (
        rows(loader),
        rank or rows(world.loader(ExactOrder(follows_world=False))),
        rows(loader),
    ),
    "shares taken in turn": lambda world, loader, rank: [
        rows(world.loader(ExactOrder(rank=(rank + turn) % 2, world_size=2))) for turn in range(2)
    ],
    "equal shares": lambda world, loader, rank: rows(world.loader(replication=2)),
}


@pytest.mark.parametrize("order", ["elastic", ExactOrder(shuffle_rows=True)], ids=["e", "x"])
@pytest.mark.parametrize("program", list(QUIET))
def test_programs_that_are_right_are_told_nothing(pair: World, program: str, order: Any) -> None:
    assert pair.told(lambda loader, rank: QUIET[program](pair, loader, rank), order) == []


def test_a_group_after_another_one_finds_no_old_keys(pair: World) -> None:
    for size in (BATCH, BATCH + 2):
        pair.groups = [Token() for _ in range(2)]
        assert pair.told(lambda loader, rank: rows(loader), "elastic", size) == []


def test_ranks_that_are_started_again_find_no_old_keys(world: World) -> None:
    """The store of torchrun outlives them."""
    for size in (BATCH, BATCH + 2):
        again = World(world.patch, world.url, world.store, 2)
        assert again.told(lambda loader, rank: rows(loader), "elastic", size) == []


def test_a_group_that_the_program_lets_go_of_ends() -> None:
    group, gone = Token(), threading.Event()
    weakref.finalize(group, gone.set)
    agreement._ranks._ask(partial(id, group))
    del group
    assert gone.wait(60)


GONE = Mock(compare_set=Mock(side_effect=RuntimeError("Connection reset by peer")))


@pytest.mark.parametrize("store", [GONE, object()], ids=["gone", "unknown"])
def test_a_store_that_raises_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, url: str, store: Any
) -> None:
    world = World(monkeypatch, url, store, 2)
    seen: list[int] = []
    assert world.told(lambda loader, rank: seen.extend(rows(loader))) == []
    assert sorted(seen) == list(range(ROWS))


def test_nobody_waits_for_a_store_that_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    store = Hanging()
    world = World(monkeypatch, url, store, 2)
    world.be(0)
    loader = world.loader()
    assert [len(rows(loader)) for _ in range(3)] == [ROWS // 2] * 3
    store.is_gone.set()


@pytest.fixture
def alone() -> Iterator[None]:
    """A real process group of this process alone."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


def test_the_store_of_the_group_is_found(alone: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert agreement.find_group() is None  # of one rank
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    group = agreement.find_group()
    assert group is not None
    assert group.store.compare_set("key", "", "value") == b"value"
    monkeypatch.delattr(sys.modules["torch.distributed.distributed_c10d"], "_get_default_store")
    assert agreement.find_group() is None
    dist.destroy_process_group()
    assert agreement.find_group() is None


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_fork_leaves_the_store_of_its_parent_alone(
    alone: None, monkeypatch: pytest.MonkeyPatch, url: str, launch: Launch
) -> None:
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    launch(0, 2)
    child = os.fork()
    if child == 0:
        ranks = agreement._ranks
        rows(StreamingDataLoader(StreamingDataset(local=url, batch_size=BATCH), BATCH))
        os._exit(0 if ranks._thread is None and ranks._inherited is not None else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert len(rows(StreamingDataLoader(StreamingDataset(local=url, batch_size=BATCH), BATCH)))


def test_a_rank_asks_the_store_three_times_an_epoch(pair: World) -> None:
    pair.store = Mock(wraps=dist.HashStore())
    pair.told(lambda loader, rank: [rows(loader) for _ in range(3)])
    assert pair.store.compare_set.call_count == 3 * 2 * 3
