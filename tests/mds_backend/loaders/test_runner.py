"""The loop that runs passes, without any framework: what it counts, copies and closes."""

from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

from mdstorm_backend.datasets.dataset import Dataset
from mdstorm_backend.elastic import ElasticOrder, ElasticShare
from mdstorm_backend.loaders.passes import Schedule
from mdstorm_backend.loaders.reader_options import ReaderOptions
from mdstorm_backend.loaders.rest import Batching
from mdstorm_backend.loaders.runner import NOTHING, Delivered, PassRunner, converted
from mdstorm_backend.order.exact import ExactOrder
from mdstorm_backend.read.block import Block

ROWS, SHARDS = 20, 4
ORDERS: dict[str, ExactOrder | ElasticShare] = {
    "exact": ExactOrder(seed=3, shuffle_shards=True, shuffle_rows=True),
    "elastic": ElasticShare(ElasticOrder(1, shuffle=True), states_batch_size=False),
}
in_either_order = pytest.mark.parametrize("order", list(ORDERS))


def runner_of(
    dataset: Dataset,
    order: str = "exact",
    batch_size: int = 3,
    *,
    num_epochs: int = 1,
    drop_last: bool = False,
    **options: Any,
) -> PassRunner:
    read = ReaderOptions(dataset, ORDERS[order], num_epochs=num_epochs)
    return PassRunner(Schedule(read), Batching(batch_size, drop_last), **options)


def lists(blocks: Iterator[Block]) -> Delivered:
    for block in blocks:
        for batch, mark, size in zip(block.batches(), block.marks, block.sizes, strict=True):
            yield batch["number"].tolist(), mark, size


def read_by(runner: PassRunner, convert: Callable[..., Delivered] = lists) -> Any:
    return runner.run(lambda rest: converted(rest.blocks(), convert))


def flat(batches: Any) -> list[int]:
    return [number for batch in batches for number in batch]


@in_either_order
def test_what_is_nothing_counts_and_is_not_delivered(numbers: Dataset, order: str) -> None:
    def odd(blocks: Iterator[Block]) -> Delivered:
        for number, (batch, mark, size) in enumerate(lists(blocks)):
            yield batch if number % 2 else NOTHING, mark, size

    expected = list(read_by(runner_of(numbers, order)))
    runner = runner_of(numbers, order)
    batches = read_by(runner, odd)
    assert [next(batches), next(batches)] == [expected[1], expected[3]]
    assert runner.rows == 12
    batches.close()


@in_either_order
def test_the_place_is_that_of_the_iteration_advanced_last(numbers: Dataset, order: str) -> None:
    runner = runner_of(numbers, order)
    first, second = read_by(runner), read_by(runner)
    next(first), next(second), next(first)
    other = runner_of(numbers, order)
    other.load_state_dict(runner.state_dict())
    assert flat(read_by(other)) == flat(first)
    first.close()
    second.close()


def test_epochs_whose_rows_are_all_left_out_count_as_well(numbers: Dataset) -> None:
    # Two batches end with the third epoch; the fourth has fewer rows than a batch.
    runner = runner_of(numbers, batch_size=30, num_epochs=4, drop_last=True)
    assert len(list(read_by(runner))) == 2
    other = runner_of(numbers, batch_size=30, num_epochs=4, drop_last=True)
    other.schedule.next_epoch = 4
    assert flat(read_by(runner)) == flat(read_by(other))


def test_blocks_are_closed_after_what_is_made_of_them(numbers: Dataset) -> None:
    closed: list[str] = []

    def noted(name: str, steps: Iterator[Any]) -> Generator[Any, None, None]:
        try:
            yield from steps
        finally:
            closed.append(name)

    runner = runner_of(numbers)
    batches = runner.run(
        lambda rest: converted(
            noted("blocks", rest.blocks()), lambda blocks: noted("batches", lists(blocks))
        )
    )
    next(batches)
    batches.close()
    assert closed == ["batches", "blocks"]
    runner.threads.wait()


def test_a_state_of_the_beginning_or_of_batches_counts_no_items(numbers: Dataset) -> None:
    state = runner_of(numbers, by_item=True).state_dict()
    assert "items" not in state["mdstorm"]
    of_batches = runner_of(numbers)
    of_batches.load_state_dict({**state, "mdstorm": {**state["mdstorm"], "items": 2}})
    assert of_batches.state_dict() == state
