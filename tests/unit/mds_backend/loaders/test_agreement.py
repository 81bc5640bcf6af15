"""Ranks compare their passes and report differences; a failed comparison never stops training."""

import logging
import os
import re
import subprocess
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch.distributed as dist
from tests.kit.loaders import Filter, Launch, Same, rows, taken
from tests.kit.programs import free_port, without_session
from tests.kit.simulated_ranks import SimulatedRanks, Token
from tests.kit.small_datasets import write_numbers

from mdstorm_backend import ExactOrder, Stream, StreamingDataLoader, StreamingDataset
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.loaders import Consumer, agreement

ROWS, SHARDS, BATCH = 120, 4, 10


class Hanging:
    """A store whose host does not respond."""

    def __init__(self) -> None:
        self.is_gone = threading.Event()
        self.requests = 0

    def compare_set(self, *_: str) -> bytes:
        self.requests += 1
        self.is_gone.wait()
        raise RuntimeError("Connection reset by peer")


ODD = Filter(lambda number: number % 2 == 1)
STORES: dict[str, Callable[[Path], Any]] = {
    "hash": lambda _: dist.HashStore(),
    "file": lambda at: dist.FileStore(str(at / "store"), 2),
    "prefix": lambda _: dist.PrefixStore("default_pg", dist.HashStore()),
    "tcp": lambda _: dist.PrefixStore(
        "default_pg", dist.TCPStore("127.0.0.1", free_port(), 1, is_master=True)
    ),
}


class World(SimulatedRanks):
    """Simulated ranks that read the same dataset."""

    def __init__(self, patch: pytest.MonkeyPatch, url: str, store: Any, size: int = 2) -> None:
        super().__init__(patch, store, size)
        self.url = url

    def again(self, size: int = 2) -> "World":
        """Return a new set of simulated ranks with a new store."""
        return World(self.patch, self.url, dist.HashStore(), size)

    def loader(self, order: Any = "elastic", size: int = BATCH, **options: Any) -> Any:
        options = {"local": self.url, **options}
        if order == "elastic":
            dataset = StreamingDataset(batch_size=size, **{"shuffle": True, **options})
        else:
            dataset = StreamingDataset(order=order, **options)
        return StreamingDataLoader(dataset, size)

    def warned(self, read: Callable[[Any, int], Any], *loader: Any, **options: Any) -> list[str]:
        """Read a loader on all ranks, and return their warnings."""
        return self.warnings_of(lambda rank: read(self.loader(*loader, **options), rank))


@pytest.fixture(autouse=True)
def _no_thread_remains(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(agreement, "shown", set())
    monkeypatch.setattr(agreement, "DELAY", 0.01)
    yield
    for thread in threading.enumerate():
        if thread.name == "mdstorm-ranks":
            thread.join(60)
            assert not thread.is_alive()


@pytest.fixture(params=list(STORES))
def world(request: Any, monkeypatch: pytest.MonkeyPatch, url: str, tmp_path: Path) -> World:
    return World(monkeypatch, url, STORES[request.param](tmp_path))


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch, url: str) -> World:
    return World(monkeypatch, url, dist.HashStore())


in_both_orders = pytest.mark.parametrize(
    "order", ["elastic", ExactOrder(shuffle_rows=True)], ids=["elastic", "exact"]
)


def test_different_batch_size_on_one_rank_warns(world: World) -> None:
    def read(loader: Any, rank: int) -> None:
        rows(world.loader(size=BATCH + 2 * rank))

    (found,) = world.warned(read)
    assert "rank 1 begins epoch 0" in found
    assert "batch size 12, and rank 0 with 10" in found


def test_different_seeds_raise_error_in_elastic_order(world: World) -> None:
    world.become(0)
    rows(world.loader(shuffle_seed=42))
    world.become(1)
    message = r"seed 43, and rank 0 with 42.*pass the same seed on all"
    with pytest.raises(InvalidArgumentError, match=message):
        rows(world.loader(shuffle_seed=43))
    world.become(1)
    assert rows(world.loader(shuffle_seed=44, check_ranks=False))


@pytest.mark.parametrize("part", [{"epoch_size": ROWS // 2}, {"choose": ROWS // 2}], ids=str)
def test_different_seeds_raise_error_without_shuffling_if_they_choose_samples(
    pair: World, part: Any
) -> None:
    def read(seed: int) -> list[int]:
        choose = part.get("choose")
        streams = {} if choose is None else {"streams": [Stream(local=pair.url, choose=choose)]}
        options = {"local": None if streams else pair.url, "epoch_size": part.get("epoch_size")}
        return rows(pair.loader(shuffle=False, shuffle_seed=seed, **options, **streams))

    pair.become(0)
    read(42)
    pair.become(1)
    with pytest.raises(InvalidArgumentError, match="seed 43"):
        read(43)


def test_different_seeds_raise_error_before_the_second_batch(pair: World) -> None:
    pair.become(0)
    rows(pair.loader(shuffle_seed=42))
    pair.become(1)
    batches = iter(pair.loader(shuffle_seed=43))
    next(batches)
    with pytest.raises(InvalidArgumentError, match="seed 43"):
        next(batches)


def test_state_after_seed_error_counts_all_batches_read(pair: World) -> None:
    pair.become(0)
    rows(pair.loader(shuffle_seed=42))
    pair.become(1)
    loader, read = pair.loader(shuffle_seed=43), 0
    with pytest.raises(InvalidArgumentError, match="seed 43"):  # noqa: PT012
        for batch in loader:
            read += len(batch["number"])
    assert loader.state_dict()["sample_in_epoch"] == read * 2 > 0


def test_iteration_over_samples_from_two_epochs_is_compared_as_one_pass(pair: World) -> None:
    def read(loader: Any, rank: int) -> None:
        # Only rank 1 reads into the second epoch, so its next iteration starts at the third.
        assert len(list(islice(loader.dataset, ROWS // 2 + rank))) == ROWS // 2 + rank
        next(iter(loader.dataset))

    with pytest.raises(InvalidArgumentError, match="epoch number 2, and rank 0 with 1"):
        pair.warned(read, num_epochs=2)


def test_different_seeds_warn_in_exact_order(pair: World) -> None:
    def read(loader: Any, rank: int) -> None:
        rows(pair.loader(ExactOrder(seed=1 + rank, shuffle_rows=True)))

    (found,) = pair.warned(read)
    assert "seed 2, and rank 0 with 1" in found


@in_both_orders
@pytest.mark.parametrize("num_rows", [ROWS, ROWS - 7])
def test_copies_at_different_paths_warn_only_if_contents_differ(
    pair: World, tmp_path: Path, order: Any, num_rows: int
) -> None:
    copy = write_numbers(tmp_path / "copy", num_rows, tasks=SHARDS)
    urls = [pair.url, copy.url]
    found = pair.warned(lambda _, rank: rows(pair.loader(order, local=urls[rank])))
    assert len(found) == (num_rows != ROWS)
    for message in found:
        assert message.startswith(f"rank 1 begins epoch 0 of {copy.url} with dataset fingerprint")
        assert f"and rank 0 that of {pair.url} with" in message
        assert "open the same files on all ranks" in message


@in_both_orders
def test_trials_that_each_use_half_the_ranks_are_not_compared(pair: World, order: str) -> None:
    def loader(rank: int) -> Any:
        seed, share = 10 + rank // 2, (rank % 2, 2)
        if order == "elastic":
            return trials.loader(world=share, shuffle_seed=seed)
        return trials.loader(ExactOrder(seed=seed, shuffle_rows=True), world=share)

    trials = pair.again(size=4)
    assert trials.warnings_of(lambda rank: rows(loader(rank))) == []


def _state_after(
    batches: int | None, world: World, order: Any, rank: int = 0, **options: Any
) -> Any:
    world.become(rank)
    loader = world.loader(order, **options)
    taken(loader, batches)
    return loader.state_dict()


def test_rank_that_resumes_alone_raises_error(pair: World) -> None:
    state = _state_after(2, pair, ExactOrder())

    def resume(loader: Any, rank: int) -> None:
        if rank == 1:
            loader.load_state_dict(state)
        rows(loader)

    with pytest.raises(InvalidArgumentError, match="samples consumed 40, and rank 0 with 0"):
        pair.again().warned(resume, ExactOrder())


def test_warning_of_ranks_that_filter_rows_names_where(pair: World) -> None:
    found = pair.warned(lambda loader, rank: rows(loader), ExactOrder(), transform=ODD)
    assert [message for message in found if "pass the conditions as where=" in message]


@pytest.mark.parametrize(("num_epochs", "taken_by_last"), [(2, 5), (1, None)])
def test_ranks_that_filter_rows_and_load_their_own_states_do_not_warn(
    pair: World, num_epochs: int, taken_by_last: int | None
) -> None:
    """The last rank, with fewer rows, is in its second epoch, or has finished its only one."""
    uneven = Filter(lambda number: (number < ROWS // 2) | (number % 2 == 1))
    options = {"transform": uneven, "num_epochs": num_epochs}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        states = [
            _state_after(batches, pair, ExactOrder(), rank, **options)
            for rank, batches in enumerate((5, taken_by_last))
        ]
    assert [state["epoch"] for state in states] == [0, num_epochs - 1]

    def resume(loader: Any, rank: int) -> None:
        loader.load_state_dict(states[rank])
        rows(loader)

    found = pair.again().warned(resume, ExactOrder(), **options)
    assert [message for message in found if "Join" not in message] == []


@pytest.mark.parametrize("peeking", [0, 1])
@in_both_orders
def test_peek_before_all_ranks_resume_does_not_warn(pair: World, peeking: int, order: Any) -> None:
    state = _state_after(2, pair, order)

    def resume(loader: Any, rank: int) -> None:
        if rank == peeking:
            peek(loader)
        loader.load_state_dict(state)
        rows(loader)

    assert pair.again().warned(resume, order) == []


def test_peek_by_framework_that_fetches_ahead_is_not_compared(pair: World) -> None:
    def read(loader: Any, rank: int) -> None:
        if rank == 0:
            with Consumer(lambda: 1).requesting():
                taken(loader, 2)
        for _ in range(2):
            rows(loader)

    assert pair.warned(read) == []


def test_passes_in_other_threads_are_not_compared(pair: World) -> None:
    def read(loader: Any, rank: int) -> None:
        in_turn = [loader, in_epoch(5, pair.loader(size=7))]
        with ThreadPoolExecutor(1) as thread:
            for each in in_turn if rank else reversed(in_turn):
                thread.submit(rows, each).result()

    assert pair.warned(read) == []


def peek(loader: Any) -> None:
    next(iter(loader))


def in_epoch(epoch: int, loader: Any) -> Any:
    loader.set_epoch(epoch)
    return loader


def bar(batches: Any) -> Iterator[Any]:
    yield from batches


#: Programs whose ranks read differently, and the expected warnings.
DIFFERENT: dict[str, tuple[Callable[[World, Any, int], object], list[str]]] = {
    "a peek of several batches": (
        lambda world, loader, rank: (
            rank == 1 and taken(loader, 3),
            [rows(loader) for _ in range(2)],
        ),
        [
            "rank 1 begins epoch 1.*batches of the previous pass 3, and rank 0 with 6, "
            "so a state of that pass.*set_epoch"
        ],
    ),
    "the epoch, in the exact order": (
        lambda world, loader, rank: rows(in_epoch(3 * rank, world.loader(ExactOrder(seed=1)))),
        ["rank 1 begins epoch 3 .*epoch number 3, and rank 0 with 0.*make the same loaders"],
    ),
    "the epoch, with other batch sizes": (
        lambda world, loader, rank: rows(in_epoch(rank, world.loader(size=BATCH + rank))),
        ["batch size 11", "epoch number 1"],
    ),
    "a loader of rank 0 alone, before those of all ranks": (
        lambda world, loader, rank: (rank or rows(world.loader(size=7)), rows(loader)),
        ["batch size 10, and rank 0 with 7"],
    ),
    "the batch sizes of later loaders": (
        lambda world, loader, rank: (rows(loader), rows(world.loader(size=7 + rank))),
        ["batch size 8, and rank 0 with 7"],
    ),
    "the batch sizes of samples": (
        lambda world, loader, rank: list(world.loader(size=BATCH + rank).dataset),
        ["batch size 11, and rank 0 with 10"],
    ),
    "one share on two ranks": (
        lambda world, loader, rank: rows(world.loader(ExactOrder(rank=0, world_size=2))),
        ["ranks 0 and 1 both read share 0 of 2"],
    ),
    "one share on two ranks in the second pass": (
        lambda world, loader, rank: (
            rows(world.loader(ExactOrder(rank=rank, world_size=2))),
            rows(world.loader(ExactOrder(rank=0, world_size=2))),
        ),
        ["ranks 0 and 1 both read share 0 of 2"],
    ),
    "more shares than ranks": (
        lambda world, loader, rank: rows(world.loader(ExactOrder(rank=rank, world_size=3))),
        ["split into 3 shares, but there are 2 ranks"] * 2,  # one per rank
    ),
    "filters, by which ranks may have unequal numbers of batches": (
        lambda world, loader, rank: rows(world.loader(ExactOrder(), transform=ODD)),
        ["Join"] * 2,
    ),
}


@pytest.mark.parametrize("program", list(DIFFERENT))
def test_ranks_that_read_differently_warn(pair: World, program: str) -> None:
    read, expected = DIFFERENT[program]
    found = pair.warned(lambda loader, rank: read(pair, loader, rank))
    for message, words in zip(found, expected, strict=True):
        assert re.search(words, message, re.DOTALL)


#: Programs whose ranks surely lose rows in the elastic order.
WRONG: dict[str, Callable[[World, Any, int], object]] = {
    "the epoch": lambda world, loader, rank: rows(in_epoch(3 * rank, loader)),
    "the epoch of a pass of one batch": lambda world, loader, rank: rows(
        in_epoch(3 * rank, world.loader(size=ROWS // 2))
    ),
    "the epoch of samples": lambda world, loader, rank: list(in_epoch(3 * rank, loader.dataset)),
}


@pytest.mark.parametrize("program", list(WRONG))
def test_ranks_that_surely_lose_rows_raise_error(pair: World, program: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"rank 1 begins epoch .* with epoch number"):
        pair.warned(lambda loader, rank: WRONG[program](pair, loader, rank))


#: Selections of two ranks.
OTHER_ROWS: dict[str, list[dict[str, Any]]] = {
    "slices": [{"rows": slice(0, 110)}, {"rows": slice(0, 100)}],
    "masks of as many rows": [{"rows": np.arange(ROWS) % 2 == rank} for rank in range(2)],
    "all rows on one rank": [{}, {"rows": slice(0, 100)}],
    "conditions": [{"where": [("number", "<", 100 - rank)]} for rank in range(2)],
}


@pytest.mark.matrix
@in_both_orders
@pytest.mark.parametrize("selections", list(OTHER_ROWS))
def test_other_rows_of_first_loaders_raise_error_before_third_batch(
    pair: World, selections: str, order: Any
) -> None:
    yielded = [0, 0]

    def read(_: Any, rank: int) -> None:
        for _ in pair.loader(order, **OTHER_ROWS[selections][rank]):
            yielded[rank] += 1

    message = r"rank 1 begins epoch 0 of .* with rows .*pass equal rows= and where="
    with pytest.raises(InvalidArgumentError, match=message):
        pair.warned(read)
    assert yielded[1] == 1


def test_other_epoch_size_of_first_loaders_raises_error(pair: World) -> None:
    with pytest.raises(InvalidArgumentError, match="epoch_size 90, and rank 0 with 100"):
        pair.warned(lambda _, rank: rows(pair.loader(epoch_size=100 - 10 * rank)))


#: Programs in which other rows need not be wrong, and the beginnings of their warnings.
OTHER_ROWS_WARN: dict[str, Callable[[World, int], object]] = {
    "later loaders": lambda world, rank: chosen(world, TRAIN, slice(0, 50 + rank)),
    "other batch sizes": lambda world, rank: rows(
        world.loader(ExactOrder(), size=BATCH + rank, rows=slice(0, 50 + rank))
    ),
}


@pytest.mark.parametrize("program", list(OTHER_ROWS_WARN))
def test_other_rows_that_may_be_meant_warn(pair: World, program: str) -> None:
    found = pair.warned(lambda _, rank: OTHER_ROWS_WARN[program](pair, rank))
    assert "with rows 51" in found[-1]
    assert len(found) == 1 + (program == "other batch sizes")


def test_other_rows_of_other_data_warn_that_data_differ(pair: World, tmp_path: Path) -> None:
    other = write_numbers(tmp_path / "other", ROWS - 7, tasks=SHARDS).url

    def read(_: Any, rank: int) -> None:
        rows(pair.loader(local=other if rank else pair.url, where=[("number", "<", 118)]))

    of_data, of_rows = pair.warned(read)
    assert "dataset fingerprint" in of_data
    assert "with rows 113 (hash" in of_rows


def test_rank_that_begins_equal_rows_slightly_later_is_awaited(pair: World) -> None:
    """Rank 0 validates first, and rank 1 compares its training rows before rank 0 does."""
    pair.become(0)
    chosen(pair, VALIDATION)
    pair.become(1)
    requests, compare_set = [], pair.store.compare_set

    def begun_by_rank_0(key: str, *values: str) -> Any:
        requests.append(key)
        if len(requests) == 2:  # rank 1 has found the other rows of rank 0
            compare_set(f"{requests[0]}/0", "", values[1])
        return compare_set(key, *values)

    pair.store = Mock(wraps=pair.store)
    pair.store.compare_set.side_effect = begun_by_rank_0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert chosen(pair, TRAIN)


@pytest.mark.parametrize("peeking", [0, 1])
def test_rank_that_peeks_twice_raises_error_before_its_second_batch(
    pair: World, peeking: int
) -> None:
    yielded = [0, 0]

    def read(loader: Any, rank: int) -> None:
        if rank == peeking:
            peek(loader), peek(loader)
        for _ in loader:
            yielded[rank] += 1

    with pytest.raises(InvalidArgumentError, match="epoch number") as error:
        pair.warned(read)
    assert f"epoch number {peeking}, and rank 0 with {1 - peeking}" in str(error.value)
    assert yielded == [ROWS // 2 // BATCH, 1]


def chosen(world: World, *selections: Any, **options: Any) -> list[int]:
    """Read one loader for each selection of rows in turn, in the exact order."""
    shuffled = ExactOrder(shuffle_rows=True)
    return [
        row for each in selections for row in rows(world.loader(shuffled, rows=each, **options))
    ]


TRAIN, VALIDATION = slice(0, 100), slice(100, None)


#: Correct programs, which must not cause any warnings.
QUIET: dict[str, Callable[[World, Any, int], object]] = {
    "epochs": lambda world, loader, rank: [rows(loader) for _ in range(3)],
    "a rank ahead": lambda world, loader, rank: [rows(loader) for _ in range(4 - rank)],
    "a peek of rank 0": lambda world, loader, rank: (
        rank or peek(loader),
        [rows(loader) for _ in range(2)],
    ),
    "a peek of rank 0 with another loader": lambda world, loader, rank: (
        rank or peek(world.loader(size=7)),
        [rows(loader) for _ in range(2)],
    ),
    "a batch of each epoch": lambda world, loader, rank: [peek(loader) for _ in range(5)],
    "set_epoch": lambda world, loader, rank: [
        (loader.set_epoch(epoch), rows(loader)) for epoch in range(3)
    ],
    "two loaders over one dataset": lambda world, loader, rank: [
        rows(each) for each in (loader, StreamingDataLoader(loader.dataset, 7)) for _ in range(2)
    ],
    "a loader of rank 0 that nobody reads": lambda world, loader, rank: (
        rank or world.loader(size=7),
        rows(loader),
    ),
    "another loader on rank 0 alone, after those of all ranks": lambda world, loader, rank: (
        rows(loader),
        rank or rows(world.loader(size=7)),
        rows(loader),
    ),
    "another loader on rank 0 alone, which is not compared": lambda world, loader, rank: (
        rank or rows(world.loader(size=7, check_ranks=False)),
        rows(loader),
    ),
    "other columns on rank 0 alone": lambda world, loader, rank: (
        rank or rows(world.loader(size=7, columns=["number"])),
        rows(loader),
    ),
    "a progress bar on rank 0 alone": lambda world, loader, rank: [
        rows(loader if rank else bar(loader)) for _ in range(3)
    ],
    "all rows on rank 0 alone": lambda world, loader, rank: (
        rank or rows(world.loader(ExactOrder(follows_world=False))),
        rows(loader),
    ),
    "shares in turn": lambda world, loader, rank: [
        rows(world.loader(ExactOrder(rank=(rank + turn) % 2, world_size=2))) for turn in range(2)
    ],
    "equal shares": lambda world, loader, rank: rows(world.loader(replication=2)),
    "training and validation on one dataset": lambda world, loader, rank: chosen(
        world, TRAIN, VALIDATION, TRAIN, VALIDATION
    ),
    "validation on rank 0 alone": lambda world, loader, rank: [
        chosen(world, *((TRAIN,) if rank else (TRAIN, VALIDATION))) for _ in range(3)
    ],
    "validation on rank 0 alone, before training": lambda world, loader, rank: [
        chosen(world, *((TRAIN,) if rank else (VALIDATION, TRAIN))) for _ in range(3)
    ],
    "validation on the last rank alone": lambda world, loader, rank: [
        chosen(world, *((TRAIN, VALIDATION) if rank else (TRAIN,))) for _ in range(3)
    ],
    "other rows in each epoch": lambda world, loader, rank: chosen(
        world, *(slice(epoch, None) for epoch in range(4))
    ),
    "other rows in each epoch, and validation on rank 0 alone": lambda world, loader, rank: [
        chosen(world, slice(epoch, None), *(() if rank else (VALIDATION,))) for epoch in range(3)
    ],
    "other rows in each epoch, with a rank ahead": lambda world, loader, rank: chosen(
        world, *(slice(epoch, None) for epoch in range(4 - rank))
    ),
    "a peek at other rows on rank 0": lambda world, loader, rank: (
        rank or peek(world.loader(rows=VALIDATION)),
        chosen(world, TRAIN),
    ),
    "the same rows in another order, which are sorted": lambda world, loader, rank: chosen(
        world, [*range(100)] if rank else [*reversed(range(100))]
    ),
    "all rows, stated by one rank": lambda world, loader, rank: chosen(
        world, None if rank else slice(None)
    ),
    "seeds that the elastic order does not use": lambda world, loader, rank: rows(
        world.loader(shuffle=False, shuffle_seed=42 + rank)
    ),
    "seeds in stored order": lambda world, loader, rank: rows(
        world.loader(ExactOrder(seed=5 + rank))
    ),
    "a transform on rank 0 alone": lambda world, loader, rank: (
        rank or rows(world.loader(ExactOrder(), 7, transform=Same())),
        rows(world.loader(ExactOrder())),
    ),
    "other rows and columns on rank 0 alone": lambda world, loader, rank: (
        rank or chosen(world, VALIDATION, columns=["number"]),
        chosen(world, TRAIN),
    ),
}


@pytest.mark.matrix
@in_both_orders
@pytest.mark.parametrize("program", list(QUIET))
def test_correct_programs_do_not_warn(pair: World, program: str, order: Any) -> None:
    assert pair.warned(lambda loader, rank: QUIET[program](pair, loader, rank), order) == []


def test_split_that_only_rank_0_reads_is_not_compared_with_other_splits(
    pair: World, tmp_path: Path
) -> None:
    for split in ("train", "val"):
        write_numbers(tmp_path / split, ROWS if split == "train" else 20)

    def read(loader: Any, rank: int) -> None:
        for split in ("train",) if rank else ("val", "train"):
            rows(pair.loader(local=str(tmp_path), split=split))

    assert pair.warned(read) == []


def test_passes_from_an_earlier_process_group_are_not_compared(pair: World) -> None:
    loaders: list[Any] = []

    def read_alone(loader: Any, rank: int) -> None:
        loaders.append(loader)
        taken(loader, 3 + rank)

    pair.warned(read_alone)
    pair.make_group()
    assert pair.warnings_of(lambda rank: rows(loaders[rank])) == []


def test_later_process_group_ignores_keys_from_an_earlier_group(pair: World) -> None:
    for size in (BATCH, BATCH + 2):
        pair.make_group()
        assert pair.warned(lambda loader, rank: rows(loader), "elastic", size) == []


def test_restarted_ranks_ignore_keys_from_earlier_ranks(world: World) -> None:
    """A torchrun store is kept when ranks restart."""
    for size in (BATCH, BATCH + 2):
        again = World(world.patch, world.url, world.store)
        assert again.warned(lambda loader, rank: rows(loader), "elastic", size) == []


def test_process_group_is_freed_after_the_pass_that_used_it(
    monkeypatch: pytest.MonkeyPatch, url: str, launch: Launch
) -> None:
    launch(0, 2)
    store, gone = Mock(wraps=dist.HashStore()), threading.Event()
    group = Token()
    weakref.finalize(group, gone.set)
    ranks = agreement.Ranks(group, 0, 2, find_store=lambda: store)
    monkeypatch.setattr(agreement, "find_ranks", lambda: ranks)
    rows(StreamingDataLoader(StreamingDataset(local=url, batch_size=BATCH), BATCH))
    assert store.compare_set.call_count == 3
    del group
    assert gone.wait(60)


GONE = Mock(spec=["compare_set"])
GONE.compare_set.side_effect = RuntimeError("Connection reset by peer")


@pytest.mark.parametrize("store", [GONE, object()], ids=["gone", "unknown"])
def test_store_error_is_logged_once_and_does_not_affect_reading(
    monkeypatch: pytest.MonkeyPatch, url: str, store: Any, caplog: pytest.LogCaptureFixture
) -> None:
    world = World(monkeypatch, url, store)
    seen: list[int] = []
    with caplog.at_level(logging.DEBUG, agreement.__name__):
        found = world.warned(lambda loader, _: [seen.extend(rows(loader)) for _ in range(3)])
    assert found == []
    assert sorted(seen) == sorted([*range(ROWS)] * 3)
    logged = [record for record in caplog.records if record.name == agreement.__name__]
    assert [record.levelno for record in logged] == [logging.DEBUG] * 2  # one per rank
    assert all(record.exc_info for record in logged)


def test_ranks_in_a_new_group_are_compared_after_a_failed_check(pair: World) -> None:
    pair.store = object()
    assert pair.warned(lambda loader, rank: rows(loader)) == []
    pair.store = dist.HashStore()
    pair.make_group()
    assert pair.warned(lambda _, rank: rows(pair.loader(size=BATCH + rank)))


def test_unresponsive_store_is_logged_once_and_does_not_affect_reading(
    monkeypatch: pytest.MonkeyPatch, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(agreement, "PATIENCE", 0.01)
    store = Hanging()
    world = World(monkeypatch, url, store)
    world.become(0)
    loader = world.loader()
    with caplog.at_level(logging.DEBUG, agreement.__name__):
        assert [len(rows(loader)) for _ in range(3)] == [ROWS // 2] * 3
    (logged,) = [record for record in caplog.records if record.name == agreement.__name__]
    assert "did not answer within" in logged.getMessage()
    assert store.requests == 1
    store.is_gone.set()
    monkeypatch.undo()


@pytest.fixture
def alone() -> Iterator[None]:
    """A real process group that contains only this process."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    if dist.is_initialized():
        dist.destroy_process_group()


def test_process_group_store_is_found(alone: None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert agreement.find_ranks() is None  # one rank has nothing to compare
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    ranks = agreement.find_ranks()
    assert ranks is not None
    assert ranks is agreement.find_ranks()
    assert (ranks.rank, ranks.size) == (0, 2)
    assert agreement.default_store().compare_set("key", "", "value") == b"value"
    dist.destroy_process_group()
    assert agreement.find_ranks() is None
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    again = agreement.find_ranks()
    assert again is not None
    assert again.number == ranks.number + 1


def test_missing_private_torch_function_is_logged_once(
    alone: None,
    monkeypatch: pytest.MonkeyPatch,
    url: str,
    launch: Launch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    launch(0, 2)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    monkeypatch.delattr(sys.modules["torch.distributed.distributed_c10d"], "_get_default_store")
    loader = StreamingDataLoader(StreamingDataset(local=url, batch_size=BATCH), BATCH)
    with caplog.at_level(logging.DEBUG, agreement.__name__):
        assert [len(rows(loader)) for _ in range(2)] == [ROWS // 2] * 2
    (logged,) = [record for record in caplog.records if record.name == agreement.__name__]
    assert "_get_default_store" in logged.getMessage()


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_forked_process_does_not_use_its_parents_store(
    alone: None, monkeypatch: pytest.MonkeyPatch, url: str, launch: Launch
) -> None:
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    launch(0, 2)
    assert agreement.find_ranks() is not None
    child = os.fork()
    if child == 0:
        os._exit(0 if agreement.find_ranks() is None else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert len(rows(StreamingDataLoader(StreamingDataset(local=url, batch_size=BATCH), BATCH)))


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_forked_process_has_started_when_it_was_forked() -> None:
    """A launcher may keep its store and fork restarted ranks."""
    before = time.time()
    child = os.fork()
    if child == 0:
        os._exit(0 if agreement.started >= before else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_forked_process_numbers_its_groups_from_one(
    alone: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ranks that are forked by different processes find each other's passes by these numbers."""
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    assert agreement.find_ranks() is not None
    child = os.fork()
    if child == 0:
        group = Token()
        monkeypatch.setattr(dist, "group", Mock(WORLD=group))
        ranks = agreement.find_ranks()
        os._exit(0 if ranks is not None and ranks.number == 1 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_each_pass_sends_two_store_requests_per_rank(pair: World) -> None:
    pair.store = Mock(wraps=dist.HashStore())
    pair.warned(lambda loader, rank: [rows(loader) for _ in range(3)])
    assert pair.store.compare_set.call_count == 2 * 2 * 3 + 1  # one for a new selection


def test_passes_beyond_the_limit_are_not_stored(
    pair: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(agreement, "MOST_PASSES", 2)
    pair.store = Mock(wraps=dist.HashStore())
    pair.warned(lambda loader, rank: [rows(pair.loader()) for _ in range(4)])
    assert pair.store.compare_set.call_count == 2 * 2 * 2 + 1


#: A program that takes a URL and a rank, and reads one pass for each line on stdin.
RANK = """
import sys
import torch.distributed as dist
from mdstorm_backend import StreamingDataLoader, StreamingDataset

url, rank = sys.argv[1], int(sys.argv[2])
dist.init_process_group("gloo", rank=rank, world_size=2)
loader = StreamingDataLoader(StreamingDataset(local=url, batch_size=10, shuffle=True), 10)
for _ in sys.stdin:
    print(sum(len(batch["number"]) for batch in loader), flush=True)
dist.destroy_process_group()
"""


@pytest.mark.long
def test_process_group_destroyed_by_another_rank_prints_no_messages(url: str) -> None:
    environment = {
        **without_session(),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port()),
        "RANK": "0",
        "WORLD_SIZE": "2",
    }
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, url, str(rank)],
            env={**environment, "RANK": str(rank)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    try:
        # Rank 0 hosts the store, which ends with its group, while rank 1 continues to read.
        outputs = [ranks[0].communicate("\n")]
        outputs.append(ranks[1].communicate("\n" * 3))
    finally:
        for each in ranks:
            each.kill()
    assert [each.returncode for each in ranks] == [0, 0], outputs
    assert [out.split() for out, _ in outputs] == [["60"], ["60"] * 3]
    for _, errors in outputs:
        assert not re.search(r"mdstorm|TCPStore|c10|frame #|Exception|Warning", errors), errors
