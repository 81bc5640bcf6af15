"""`Consumer`, for frameworks that request batches or the end before using earlier batches."""

from collections.abc import Iterator
from copy import deepcopy
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tests.kit.loaders import (
    CountingItself,
    Filter,
    Own,
    OwnStates,
    column,
    in_either_order,
    loader_in,
    rows,
)
from tests.kit.small_datasets import write_numbers

from mdstorm_backend import ExactOrder, StreamingDataLoader, StreamingDataset
from mdstorm_backend.loaders import CONSUMER, MOST_UNUSED, Consumer

ROWS, BATCH = 30, 10


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_numbers(tmp_path_factory.mktemp("numbers") / "data", ROWS).url


def loader_of(url: str, order: str = "exact") -> StreamingDataLoader:
    return loader_in(order, url, BATCH)


def begun(loader: StreamingDataLoader, consumer: Consumer, batches: int) -> Iterator[Any]:
    """Begin a consumer's iteration, take some batches, and return the iterator."""
    iterator = iter(loader)
    with consumer.requesting():
        for _ in range(batches):
            next(iterator)
    return iterator


def fail(consumer: Consumer) -> None:
    with consumer.requesting():
        assert CONSUMER.get() is consumer
        raise ZeroDivisionError


def test_earlier_consumer_is_restored_after_error_in_request() -> None:
    before = CONSUMER.get()
    with pytest.raises(ZeroDivisionError):
        fail(Consumer())
    assert CONSUMER.get() is before


@pytest.mark.parametrize(
    ("consumer", "batches", "counts"),
    [
        (Consumer(), 1, False),
        (Consumer(), 2, True),
        (Consumer(peek=0), 1, True),
        (Consumer(peek=2), 2, False),
        (Consumer(peek=2), 3, True),
        (Consumer(skipped=1), 2, False),
        (Consumer(skipped=1), 3, True),
        (Consumer(lambda: True), 2, False),
        (Consumer(lambda: True), 3, True),
        (Consumer(lambda: False), 2, True),
        (Consumer(lambda: True, peek=0), 1, False),
        (Consumer(lambda: True, peek=0), 2, True),
        (Consumer(lambda: False, peek=0), 1, True),
    ],
)
def test_iteration_advances_the_epoch_once_it_is_more_than_a_peek(
    url: str, consumer: Consumer, batches: int, *, counts: bool
) -> None:
    loader = loader_of(url)
    begun(loader, consumer, batches).close()  # type: ignore[attr-defined]
    assert loader.dataset.next_epoch == counts


def test_end_requested_ahead_advances_epoch_once_it_is_used(url: str) -> None:
    loader = loader_of(url)
    rows(islice(loader, 2))
    loader.load_state_dict(loader.state_dict() or {})
    consumer = Consumer(lambda: False, has_used_end=False)
    with consumer.requesting():
        assert len(list(loader)) == 1  # the last batch of the epoch
    assert loader.dataset.next_epoch == 0
    consumer.has_used_end = True
    assert loader.dataset.next_epoch == 1


@in_either_order
def test_prefetched_batch_affects_only_the_state_of_its_own_pass(url: str, order: str) -> None:
    loader = loader_of(url, order)
    first = begun(loader, Consumer(lambda: True), 2)
    second = iter(loader)
    next(second)
    resumed = loader_of(url, order)
    resumed.load_state_dict(loader.state_dict() or {})
    assert rows(resumed) == rows(second)  # a plain loop uses every batch it takes
    next(first)
    resumed = loader_of(url, order)
    resumed.load_state_dict(loader.state_dict() or {})
    whole = rows(loader_of(url, order))
    assert rows(resumed) == whole[2 * BATCH :]
    first.close()  # type: ignore[attr-defined]


def test_consumer_that_skips_batches_does_not_affect_later_iterations(url: str) -> None:
    loader, epochs = loader_of(url), rows(loader_of(url))
    begun(loader, Consumer(skipped=2), 1).close()  # type: ignore[attr-defined]
    assert rows(islice(loader, 2)) == epochs[: 2 * BATCH]
    assert loader.dataset.next_epoch == 1


@pytest.mark.matrix
@in_either_order
@pytest.mark.parametrize("kind", [StreamingDataset, Own], ids=["blocks", "made by PyTorch"])
@pytest.mark.parametrize("unused", [0, 1, 2])
def test_state_and_copy_resume_with_unused_batches(
    url: str, order: str, kind: type[StreamingDataset], unused: int
) -> None:
    loader, resumed = (loader_in(order, url, BATCH, kind) for _ in range(2))
    whole = rows(loader_in(order, url, BATCH, kind))
    iterator = begun(loader, Consumer(lambda: unused, peek=0), 2)
    resumed.load_state_dict(loader.state_dict() or {})
    assert rows(resumed) == whole[(2 - unused) * BATCH :]
    if kind is StreamingDataset:
        assert rows(deepcopy(loader)) == whole[(2 - unused) * BATCH :]
    del iterator


def test_unused_last_batch_is_read_again_after_end_was_requested(url: str) -> None:
    loader, resumed = loader_of(url), loader_of(url)
    with Consumer(lambda: 1, peek=0).requesting():
        whole = rows(loader)
    resumed.load_state_dict(loader.state_dict() or {})
    assert rows(resumed) == whole[-BATCH:]


#: Dataset arguments; the transform keeps two thirds of the rows.
SELECTIONS: dict[str, dict[str, Any]] = {
    "exact": {"order": ExactOrder(shuffle_rows=True)},
    "elastic": {"batch_size": BATCH, "shuffle": True},
    "dropping rows": {
        "order": ExactOrder(shuffle_rows=True),
        "transform": Filter(lambda numbers: numbers % 3 > 0),
    },
}


@pytest.mark.matrix
@pytest.mark.parametrize("num_rows", [ROWS, BATCH])
@pytest.mark.parametrize("num_epochs", [1, 2])
@pytest.mark.parametrize("selection", list(SELECTIONS))
@pytest.mark.parametrize(
    ("dataset", "loader"), [(StreamingDataset, CountingItself), (OwnStates, StreamingDataLoader)]
)
def test_state_of_counted_batches_resumes_with_unused_batches(
    tmp_path: Path,
    dataset: type[StreamingDataset],
    loader: type[StreamingDataLoader],
    selection: str,
    num_epochs: int,
    num_rows: int,
) -> None:
    url = write_numbers(tmp_path / "data", num_rows).url

    def make() -> StreamingDataLoader:
        return loader(dataset(local=url, num_epochs=num_epochs, **SELECTIONS[selection]), BATCH)

    whole = column(make())
    for taken in range(1, len(whole) + 2):  # the last request is for the end
        for unused in range(min(taken, len(whole), MOST_UNUSED) + 1):
            begun, resumed = make(), make()
            with Consumer(lambda unused=unused: unused, peek=0).requesting():
                seen = column(islice(iterator := iter(begun), taken))
            resumed.load_state_dict(begun.state_dict() or {})
            if remaining := whole[len(seen) - unused :]:
                assert column(resumed) == remaining, (taken, unused)
            del iterator


@pytest.mark.parametrize("dataset", [StreamingDataset, OwnStates])
def test_state_after_loading_one_and_setting_the_epoch_is_of_that_epoch(
    tmp_path: Path, dataset: type[StreamingDataset]
) -> None:
    url = write_numbers(tmp_path / "data", ROWS).url

    def make() -> StreamingDataLoader:
        return StreamingDataLoader(dataset(local=url, order=ExactOrder(shuffle_rows=True)), BATCH)

    loader, resumed = make(), make()
    loader.load_state_dict(make().state_dict() or {})
    loader.dataset.set_epoch(2)
    resumed.load_state_dict(loader.state_dict() or {})
    assert column(resumed) == column(loader)


@pytest.mark.parametrize("dataset", [StreamingDataset, OwnStates])
def test_state_after_a_left_peek_is_the_beginning(
    tmp_path: Path, dataset: type[StreamingDataset]
) -> None:
    url = write_numbers(tmp_path / "data", ROWS).url
    loader, resumed = (
        StreamingDataLoader(dataset(local=url, order=ExactOrder()), BATCH) for _ in range(2)
    )
    next(iter(loader))
    resumed.load_state_dict(loader.state_dict() or {})
    assert column(resumed) == column(loader)


@pytest.mark.parametrize("dataset", [StreamingDataset, OwnStates])
def test_end_loaded_in_another_world_is_saved_as_that_end(
    tmp_path: Path, dataset: type[StreamingDataset]
) -> None:
    url = write_numbers(tmp_path / "data", ROWS).url

    def make(ranks: int) -> StreamingDataLoader:
        order = ExactOrder(5, shuffle_rows=True, world_size=ranks)
        return StreamingDataLoader(dataset(local=url, order=order), BATCH)

    loader, loaded, resumed, other = make(3), make(2), make(2), make(2)
    list(loader)
    loaded.load_state_dict(loader.state_dict() or {})
    resumed.load_state_dict(loaded.state_dict() or {})
    for one in resumed, other:
        one.dataset.set_epoch(0)
    assert column(resumed) == column(other)
