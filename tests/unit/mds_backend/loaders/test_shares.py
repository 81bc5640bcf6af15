"""The world at the start of a pass determines a rank's share, and peeking loses no rows."""

import pickle
import warnings
from collections import Counter
from itertools import islice
from typing import Any

import pytest
from tests.kit.loaders import Launch, dataset_in, in_either_order, loader_in, rows

from mdstorm_backend import (
    ElasticOrder,
    ExactOrder,
    StreamingDataLoader,
    StreamingDataset,
    open_dataset,
)
from mdstorm_backend.loaders import agreement
from mdstorm_backend.order import World

ROWS, SHARDS = 1_000, 13
BATCH = 20


@pytest.mark.matrix
@in_either_order
@pytest.mark.parametrize("num_workers", [0, 2])
def test_loader_made_before_the_rank_is_set_reads_the_ranks_share(
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


def test_dataset_batches_are_the_ranks_share_if_the_order_follows_the_world(
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
    [
        (ExactOrder(follows_world=False), ROWS),
        (ExactOrder(world_size=4), ROWS // 4),
        (ElasticOrder(BATCH, follows_world=False), ROWS),
        (ElasticOrder(BATCH, world=World(0, 4)), ROWS // 4),
    ],
)
def test_explicit_order_ignores_the_launcher(
    url: str, launch: Launch, order: ExactOrder | ElasticOrder, share: int
) -> None:
    launch(1, 2)
    assert len(StreamingDataset(local=url, order=order)) == share


@pytest.mark.parametrize("order", [ExactOrder(), ElasticOrder(BATCH)])
def test_order_without_a_share_follows_the_launcher(
    url: str, launch: Launch, order: ExactOrder | ElasticOrder
) -> None:
    dataset = StreamingDataset(local=url, order=order)
    launch(1, 2)
    assert len(dataset) == ROWS // 2


@in_either_order
def test_pass_keeps_its_share_until_the_end(url: str, launch: Launch, order: str) -> None:
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
def test_unpickled_loader_reads_the_current_ranks_share(
    url: str, launch: Launch, order: str
) -> None:
    launch(0, 2)
    loader = loader_in(order, url, BATCH)
    first = rows(loader)
    data = pickle.dumps(loader)
    launch(1, 2)
    second = rows(pickle.loads(data))  # noqa: S301 -- ours
    assert len(first) == len(second) == ROWS // 2
    if order == "exact":  # this order has the same shares in each epoch
        assert Counter(first + second) == Counter(range(ROWS))
    dataset = dataset_in(order, url, BATCH)
    dataset.set_epoch(1)
    assert second == rows(StreamingDataLoader(dataset, BATCH))


@in_either_order
def test_persistent_workers_read_the_current_ranks_share(
    url: str, launch: Launch, order: str
) -> None:
    dataset = dataset_in(order, url, BATCH)
    with StreamingDataLoader(dataset, BATCH, num_workers=2, persistent_workers=True) as loader:
        seen = []
        for rank in range(2):
            launch(rank, 2)
            dataset.next_epoch = 0  # in elastic order, shares differ between epochs
            seen += rows(loader)
    assert Counter(seen) == Counter(range(ROWS))


def test_state_in_exact_order_resumes_on_any_rank(url: str, launch: Launch) -> None:
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
    ("options", "warns"),
    [({}, True), ({"batch_size": 37}, True), ({"batch_size": 20}, False)],
    ids=str,
)
def test_uneven_sample_shares_warn(
    url: str, launch: Launch, monkeypatch: pytest.MonkeyPatch, options: Any, warns: bool
) -> None:
    monkeypatch.setattr(agreement, "shown", set())
    launch(0, 3)
    dataset = StreamingDataset(local=url, order=ExactOrder(), **options)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(2):
            assert len(list(dataset)) in (333, 334)
    messages = [str(one.message) for one in found]
    assert len(messages) == warns
    assert all("some ranks read 333 samples" in text for text in messages)


def test_equal_sample_shares_do_not_warn(url: str, launch: Launch) -> None:
    launch(0, 2)
    assert len(list(StreamingDataset(local=url, order=ExactOrder()))) == ROWS // 2


def test_reading_all_rows_in_every_process_warns(url: str, launch: Launch) -> None:
    dataset = open_dataset(url)
    launch(0, 2)
    with pytest.warns(UserWarning, match="every process reads all rows of"):
        assert sum(len(b["number"]) for b in dataset.batches(100, order=ExactOrder())) == ROWS
    for order in (None, ExactOrder(follows_world=False), ExactOrder(rank=1, world_size=2)):
        next(iter(dataset.batches(100, order=order)))


def peek(loader: Any) -> None:
    next(iter(loader))


def loader_resumed(order: str, url: str, state: Any) -> Any:
    loader = loader_in(order, url, BATCH)
    loader.load_state_dict(state)
    return loader


@in_either_order
@pytest.mark.parametrize("epochs", [0, 1])
def test_iteration_that_fails_before_its_first_batch_changes_nothing(
    url: str, order: str, epochs: int
) -> None:
    fails = False

    def change(batch: dict[str, Any]) -> dict[str, Any]:
        if fails:
            raise ZeroDivisionError
        return batch

    loader = loader_in(order, url, BATCH, batch_map=change)
    expected = [rows(loader_in(order, url, BATCH)) for _ in range(epochs)]
    assert [rows(loader) for _ in range(epochs)] == expected
    fails = True
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            rows(loader)
    fails = False
    assert loader.dataset.next_epoch == epochs
    peek(loader)
    assert loader.dataset.next_epoch == (2 if epochs else 0)


@in_either_order
def test_error_before_the_first_sample_changes_nothing(url: str, order: str) -> None:
    class Failing(StreamingDataset):
        fails = True

        def __getitem__(self, index: Any) -> Any:
            if self.fails:
                raise ZeroDivisionError
            return super().__getitem__(index)

    dataset = dataset_in(order, url, BATCH, Failing)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            list(dataset)
    assert dataset.next_epoch == 0
    dataset.fails = False  # type: ignore[attr-defined]
    assert len(list(islice(dataset, 1))) == 1
    assert dataset.next_epoch == 1


@in_either_order
@pytest.mark.parametrize(
    ("peeks", "batches", "rows_left"),
    [
        (0, 3, ROWS - 13 * BATCH),
        (1, 2, ROWS - 12 * BATCH),
        (1, 1, ROWS - 11 * BATCH),
        (0, 40, None),
        (0, None, None),
    ],
)
def test_rest_of_a_resumed_epoch_that_is_left_is_logged(
    url: str,
    order: str,
    peeks: int,
    batches: int | None,
    rows_left: int | None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    begun = loader_in(order, url, BATCH)
    rows(islice(begun, 10))
    loader = loader_resumed(order, url, begun.state_dict())
    for _ in range(peeks):
        peek(loader)
    rows(islice(loader, batches))
    assert not caplog.messages
    for _ in range(2):
        rows(islice(loader, 2))
    expected = [] if rows_left is None else [f"at least {rows_left} rows of epoch 0 are skipped"]
    assert [message.split(", so ")[1].split(".")[0] for message in caplog.messages] == expected


@in_either_order
def test_epoch_that_is_left_after_the_state_of_a_finished_pass_is_not_logged(
    url: str, order: str, caplog: pytest.LogCaptureFixture
) -> None:
    begun = loader_in(order, url, BATCH)
    rows(begun)
    loader = loader_resumed(order, url, begun.state_dict())
    for _ in range(2):
        rows(islice(loader, 3))
    assert not caplog.messages
