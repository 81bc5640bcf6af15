"""A rank that takes a batch before it trains, to log it or to initialise a model, is not ahead."""

from collections.abc import Callable
from copy import copy
from itertools import islice
from typing import Any

import pytest
from tests.mds_backend.loaders.loaders import Launch, in_either_order, rows

from mdstorm_backend import ExactOrder, StreamingDataLoader, StreamingDataset

ROWS, SHARDS = 1_003, 13
BATCH = 20


def loader_of(url: str, order: str, **options: Any) -> StreamingDataLoader:
    if order == "exact":
        dataset = StreamingDataset(local=url, order=ExactOrder(shuffle_rows=True))
    else:
        dataset = StreamingDataset(local=url, batch_size=BATCH, shuffle=True)
    return StreamingDataLoader(dataset, BATCH, **options)


def look(loader: Any) -> None:
    next(iter(loader))


@in_either_order
@pytest.mark.parametrize("num_workers", [0, pytest.param(2, marks=pytest.mark.long)])
def test_a_look_of_one_rank_loses_no_row_in_any_epoch(
    url: str, launch: Launch, order: str, num_workers: int
) -> None:
    epochs: list[list[int]] = [[], []]
    for rank in range(2):
        launch(rank, 2)
        loader = loader_of(url, order, num_workers=num_workers)
        if rank == 0:
            look(loader)
            assert loader.num_samples_yielded == 0
        for seen in epochs:
            seen += rows(loader)
    for seen in epochs:
        assert set(seen) == set(range(ROWS))
        assert len(seen) == ROWS if order == "exact" else len(seen) - ROWS <= 1


@in_either_order
def test_the_state_of_a_rank_that_has_looked_is_that_of_the_others(
    url: str, launch: Launch, order: str
) -> None:
    launch(0, 2)
    looked, other = loader_of(url, order), loader_of(url, order)
    look(looked)
    for loader in (looked, other):
        assert len(rows(islice(loader, 3))) == 3 * BATCH
    assert looked.state_dict() == other.state_dict()


def epochs_after(loader: Any, *first: Callable[[Any], object]) -> int:
    for each in first:
        each(loader)
    return int(loader.dataset.next_epoch)


def asked(loader: Any) -> None:
    batches = iter(loader)
    next(batches)
    loader.state_dict()
    batches.close()


def asked_the_dataset(loader: Any) -> None:
    batches = iter(loader)
    next(batches)
    loader.dataset.state_dict()
    batches.close()


def asked_afterwards(loader: Any) -> None:
    look(loader)
    assert loader.state_dict()["sample_in_epoch"] == 2 * BATCH


def asked_the_dataset_afterwards(loader: Any) -> None:
    look(loader)
    assert loader.dataset.state_dict()["sample_in_epoch"] == 2 * BATCH


def resumed(loader: Any) -> None:
    loader.load_state_dict(loader.state_dict())
    look(loader)


def set_meanwhile(loader: Any) -> None:
    batches = iter(loader)
    next(batches)
    loader.set_epoch(3)
    batches.close()


def with_another(loader: Any) -> None:
    batches = iter(loader)
    next(batches)
    list(loader)
    batches.close()


@in_either_order
@pytest.mark.parametrize(
    ("first", "epoch"),
    [
        ([look], 0),
        ([look, look], 1),
        ([asked], 1),
        ([asked_the_dataset], 1),
        ([asked_afterwards], 1),
        ([asked_the_dataset_afterwards], 1),
        ([resumed], 1),
        ([lambda loader: list(islice(loader, 2))], 1),
        ([with_another], 2),
        ([set_meanwhile], 3),
        ([list, look], 2),
        ([lambda loader: loader.set_epoch(4), look], 4),
        ([look, lambda loader: look(copy(loader))], 1),
    ],
    ids=[
        "one",
        "two",
        "state taken",
        "state of the dataset taken",
        "state taken afterwards",
        "state of the dataset taken afterwards",
        "state loaded",
        "two batches",
        "another begun meanwhile",
        "with the epoch set meanwhile",
        "after an epoch",
        "with the epoch set",
        "a copy",
    ],
)
def test_only_the_first_iteration_gives_its_epoch_back(
    url: str, launch: Launch, order: str, first: list[Any], epoch: int
) -> None:
    launch(0, 2)
    assert epochs_after(loader_of(url, order), *first) == epoch


@in_either_order
def test_a_process_that_is_alone_has_other_batches_with_each_look(url: str, order: str) -> None:
    loader = loader_of(url, order)
    looks = [tuple(next(iter(loader))["number"].tolist()) for _ in range(3)]
    assert len(set(looks)) == 3
