"""A rank reads the share that the world has for it when a pass begins, and loses none by a look."""

import pickle
import warnings
from collections import Counter
from collections.abc import Callable
from copy import copy
from itertools import islice
from typing import Any

import pytest
from tests.mds_backend.loaders.loaders import Launch, dataset_in, in_either_order, loader_in, rows

from mdstorm_backend import ExactOrder, StreamingDataLoader, StreamingDataset, open_dataset
from mdstorm_backend.loaders import agreement

ROWS, SHARDS = 1_000, 13
BATCH = 20


@in_either_order
@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_loader_made_before_the_launch_reads_a_share(
    url: str, launch: Launch, order: str, num_workers: int
) -> None:
    loaders = [loader_in(order, url, BATCH, num_workers=num_workers) for _ in range(2)]
    assert {len(loader) for loader in loaders} == {ROWS // BATCH}
    seen = []
    for rank, loader in enumerate(loaders):
        launch(rank, 2)
        assert (len(loader), len(loader.dataset)) == (ROWS // BATCH // 2, ROWS // 2)
        seen += rows(loader)
    assert Counter(seen) == Counter(range(ROWS))


def test_batches_without_a_loader_follow_the_world_where_the_order_does(
    url: str, launch: Launch
) -> None:
    order = ExactOrder(shuffle_rows=True, follows_world=True)

    def numbers(rank: int, size: int) -> list[int]:
        launch(rank, size)
        batches = open_dataset(url).batches(BATCH, order=order)
        return [number for batch in batches for number in batch["number"].tolist()]

    assert Counter(numbers(0, 2) + numbers(1, 2)) == Counter(range(ROWS))
    assert numbers(0, 1) == numbers(0, 1) != list(range(ROWS))


@pytest.mark.parametrize(
    ("order", "share"),
    [(ExactOrder(follows_world=False), ROWS), (ExactOrder(world_size=4), ROWS // 4)],
)
def test_a_share_that_was_given_stays(
    url: str, launch: Launch, order: ExactOrder, share: int
) -> None:
    launch(1, 2)
    assert len(StreamingDataset(local=url, order=order)) == share


@in_either_order
def test_a_pass_keeps_its_share_to_the_end(url: str, launch: Launch, order: str) -> None:
    loader = loader_in(order, url, BATCH)
    launch(0, 2)
    batches = iter(loader)
    seen = rows([next(batches)])
    launch(1, 2)
    state = loader.state_dict()
    seen += rows(batches)
    launch(0, 2)
    again = loader_in(order, url, BATCH)
    assert seen == rows(again)
    again.load_state_dict(state)
    assert seen[BATCH:] == rows(again)
    launch(1, 2)
    other = rows(loader_in(order, url, BATCH))
    assert Counter(seen + other) == Counter(range(ROWS))


@in_either_order
def test_a_pickle_does_not_keep_the_world(url: str, launch: Launch, order: str) -> None:
    launch(0, 2)
    loader = loader_in(order, url, BATCH)
    first = rows(loader)
    data = pickle.dumps(loader)
    launch(1, 2)
    second = rows(pickle.loads(data))  # noqa: S301 -- ours
    assert len(first) == len(second) == ROWS // 2
    if order == "exact":  # whose shares are the same in each epoch
        assert Counter(first + second) == Counter(range(ROWS))
    dataset = dataset_in(order, url, BATCH)
    dataset.set_epoch(1)
    assert second == rows(StreamingDataLoader(dataset, BATCH))


@in_either_order
def test_persistent_workers_follow_the_world(url: str, launch: Launch, order: str) -> None:
    dataset = dataset_in(order, url, BATCH)
    with StreamingDataLoader(dataset, BATCH, num_workers=2, persistent_workers=True) as loader:
        seen = []
        for rank in range(2):
            launch(rank, 2)
            dataset.next_epoch = 0  # the elastic order deals each epoch anew
            seen += rows(loader)
    assert Counter(seen) == Counter(range(ROWS))


def test_a_place_in_the_exact_order_is_that_of_whichever_rank_goes_on(
    url: str, launch: Launch
) -> None:
    launch(0, 2)
    loader = loader_in("exact", url, BATCH)
    seen = rows(islice(loader, 3))
    state = loader.state_dict()
    rests = []
    for rank in range(2):
        launch(0, 2)
        loader.load_state_dict(state)
        launch(rank, 2)
        rests += rows(loader)
    launch(1, 2)
    seen += rows(islice(loader_in("exact", url, BATCH), 3))
    assert Counter(seen + rests) == Counter(range(ROWS))


@pytest.mark.parametrize(
    ("options", "is_told"),
    [({}, True), ({"batch_size": 37}, True), ({"batch_size": 20}, False)],
    ids=str,
)
def test_samples_of_which_some_ranks_have_one_more_are_told_of(
    url: str, launch: Launch, monkeypatch: pytest.MonkeyPatch, options: Any, is_told: bool
) -> None:
    monkeypatch.setattr(agreement, "_warned", set())
    launch(0, 3)
    dataset = StreamingDataset(local=url, order=ExactOrder(), **options)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(2):
            assert len(list(dataset)) in (333, 334)
    told = [str(one.message) for one in found]
    assert len(told) == is_told
    assert all("some ranks read 333 samples" in text for text in told)


def test_equal_shares_are_not_told_of(url: str, launch: Launch) -> None:
    launch(0, 2)
    assert len(list(StreamingDataset(local=url, order=ExactOrder()))) == ROWS // 2


def test_batches_that_every_process_reads_are_told_of(url: str, launch: Launch) -> None:
    dataset = open_dataset(url)
    launch(0, 2)
    with pytest.warns(UserWarning, match="every process reads all rows of"):
        assert sum(len(b["number"]) for b in dataset.batches(100, order=ExactOrder())) == ROWS
    for order in (None, ExactOrder(follows_world=False), ExactOrder(rank=1, world_size=2)):
        next(iter(dataset.batches(100, order=order)))


def look(loader: Any) -> None:
    next(iter(loader))


@in_either_order
@pytest.mark.parametrize("num_workers", [0, pytest.param(2, marks=pytest.mark.long)])
def test_a_look_of_one_rank_loses_no_row_in_any_epoch(
    url: str, launch: Launch, order: str, num_workers: int
) -> None:
    epochs: list[list[int]] = [[], []]
    for rank in range(3):
        launch(rank, 3)
        loader = loader_in(order, url, BATCH, num_workers=num_workers)
        if rank == 0:
            look(loader)
            assert loader.num_samples_yielded == 0
        for seen in epochs:
            seen += rows(loader)
    for seen in epochs:
        assert set(seen) == set(range(ROWS))
        assert len(seen) == ROWS if order == "exact" else len(seen) - ROWS <= 2


@in_either_order
def test_the_state_of_a_rank_that_has_looked_is_that_of_the_others(
    url: str, launch: Launch, order: str
) -> None:
    launch(0, 2)
    looked, other = loader_in(order, url, BATCH), loader_in(order, url, BATCH)
    look(looked)
    for loader in (looked, other):
        assert len(rows(islice(loader, 3))) == 3 * BATCH
    assert looked.state_dict() == other.state_dict()


def meanwhile(use: Callable[[Any], object]) -> Callable[[Any], None]:
    """A look, during which something is done."""

    def looked(loader: Any) -> None:
        batches = iter(loader)
        next(batches)
        use(loader)
        batches.close()

    return looked


def asked_afterwards(loader: Any) -> None:
    look(loader)
    assert loader.state_dict()["sample_in_epoch"] == 2 * BATCH


def asked_the_dataset_afterwards(loader: Any) -> None:
    look(loader)
    assert loader.dataset.state_dict()["sample_in_epoch"] == 2 * BATCH


def resumed(loader: Any) -> None:
    loader.load_state_dict(loader.state_dict())
    look(loader)


#: What a rank does first, and the epoch that follows.
FIRST: dict[str, tuple[list[Callable[[Any], object]], int]] = {
    "one": ([look], 0),
    "two": ([look, look], 1),
    "state taken": ([meanwhile(lambda loader: loader.state_dict())], 1),
    "state of the dataset taken": ([meanwhile(lambda loader: loader.dataset.state_dict())], 1),
    "state taken afterwards": ([asked_afterwards], 1),
    "state of the dataset taken afterwards": ([asked_the_dataset_afterwards], 1),
    "state loaded": ([resumed], 1),
    "two batches": ([lambda loader: list(islice(loader, 2))], 1),
    "another begun meanwhile": ([meanwhile(list)], 2),
    "after an epoch": ([list, look], 2),
    "with the epoch set": ([lambda loader: loader.set_epoch(4), look], 4),
    "with the epoch set meanwhile": ([meanwhile(lambda loader: loader.set_epoch(3))], 3),
    "a copy": ([look, lambda loader: look(copy(loader))], 1),
}


@in_either_order
@pytest.mark.parametrize("first", list(FIRST))
def test_only_the_first_iteration_gives_its_epoch_back(
    url: str, launch: Launch, order: str, first: str
) -> None:
    launch(0, 2)
    loader: Any = loader_in(order, url, BATCH)
    does, epoch = FIRST[first]
    for each in does:
        each(loader)
    assert loader.dataset.next_epoch == epoch


@in_either_order
def test_a_process_that_is_alone_has_other_batches_with_each_look(url: str, order: str) -> None:
    loader = loader_in(order, url, BATCH)
    looks = [tuple(next(iter(loader))["number"].tolist()) for _ in range(3)]
    assert len(set(looks)) == 3
