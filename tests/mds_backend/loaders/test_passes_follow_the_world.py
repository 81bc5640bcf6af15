"""The world is asked for when a pass begins, wherever and whenever the dataset was made."""

import pickle
import warnings
from collections import Counter
from itertools import islice
from typing import Any

import pytest
from tests.mds_backend.loaders.loaders import Launch, in_either_order, rows

from mdstorm_backend import ExactOrder, StreamingDataLoader, StreamingDataset, open_dataset
from mdstorm_backend.loaders import agreement

ROWS, SHARDS = 1_000, 13
BATCH = 20


def dataset_of(url: str, order: str = "elastic", **options: Any) -> StreamingDataset:
    if order == "exact":
        return StreamingDataset(local=url, order=ExactOrder(shuffle_rows=True), **options)
    return StreamingDataset(local=url, batch_size=BATCH, shuffle=True, **options)


@in_either_order
@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_loader_made_before_the_launch_reads_a_share(
    url: str, launch: Launch, order: str, num_workers: int
) -> None:
    loaders = [
        StreamingDataLoader(dataset_of(url, order), BATCH, num_workers=num_workers)
        for _ in range(2)
    ]
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
    loader = StreamingDataLoader(dataset_of(url, order), BATCH)
    launch(0, 2)
    batches = iter(loader)
    seen = rows([next(batches)])
    launch(1, 2)
    state = loader.state_dict()
    seen += rows(batches)
    launch(0, 2)
    again = StreamingDataLoader(dataset_of(url, order), BATCH)
    assert seen == rows(again)
    again.load_state_dict(state)
    assert seen[BATCH:] == rows(again)
    launch(1, 2)
    other = rows(StreamingDataLoader(dataset_of(url, order), BATCH))
    assert Counter(seen + other) == Counter(range(ROWS))


@in_either_order
def test_a_pickle_does_not_keep_the_world(url: str, launch: Launch, order: str) -> None:
    launch(0, 2)
    loader = StreamingDataLoader(dataset_of(url, order), BATCH)
    first = rows(loader)
    data = pickle.dumps(loader)
    launch(1, 2)
    copy = pickle.loads(data)  # noqa: S301 -- ours
    second = rows(copy)
    assert len(first) == len(second) == ROWS // 2
    if order == "exact":  # whose shares are the same in each epoch
        assert Counter(first + second) == Counter(range(ROWS))
    dataset = dataset_of(url, order)
    dataset.set_epoch(1)
    assert second == rows(StreamingDataLoader(dataset, BATCH))


@in_either_order
def test_persistent_workers_follow_the_world(url: str, launch: Launch, order: str) -> None:
    dataset = dataset_of(url, order)
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
    loader = StreamingDataLoader(dataset_of(url, "exact"), BATCH)
    seen = rows(islice(loader, 3))
    state = loader.state_dict()
    rests = []
    for rank in range(2):
        launch(0, 2)
        loader.load_state_dict(state)
        launch(rank, 2)
        rests += rows(loader)
    launch(1, 2)
    seen += rows(islice(StreamingDataLoader(dataset_of(url, "exact"), BATCH), 3))
    assert Counter(seen + rests) == Counter(range(ROWS))


@pytest.mark.parametrize(
    ("options", "is_told"),
    [({}, True), ({"batch_size": 37}, True), ({"batch_size": 20}, False)],
    ids=str,
)
def test_samples_of_which_some_ranks_have_one_more_are_told_of(
    url: str, launch: Launch, monkeypatch: pytest.MonkeyPatch, options: Any, is_told: bool
) -> None:
    monkeypatch.setattr(agreement, "_told", set())
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
