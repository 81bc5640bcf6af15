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
    loader: Any = loader_of(url, order)
    does, epoch = FIRST[first]
    for each in does:
        each(loader)
    assert loader.dataset.next_epoch == epoch


@in_either_order
def test_a_process_that_is_alone_has_other_batches_with_each_look(url: str, order: str) -> None:
    loader = loader_of(url, order)
    looks = [tuple(next(iter(loader))["number"].tolist()) for _ in range(3)]
    assert len(set(looks)) == 3
