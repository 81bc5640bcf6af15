"""A place in passes that outlives their end, errors, Ctrl-C and forks."""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.mds_backend.small_datasets import write_numbers

from mdstorm_backend.datasets.dataset import Dataset
from mdstorm_backend.loaders.item_cursor import ItemCursor
from mdstorm_backend.loaders.legs import Batching
from mdstorm_backend.loaders.reader_options import ReaderOptions
from mdstorm_backend.loaders.runner import Delivered, PassRunner, reading_of
from mdstorm_backend.order.exact import ExactOrder
from mdstorm_backend.read.block import Block

ROWS = 12


@pytest.fixture
def numbers(tmp_path: Path) -> Dataset:
    return write_numbers(tmp_path / "numbers", ROWS, tasks=3)


class Interruptions:
    """What happens before a number is delivered, once each."""

    def __init__(self, **errors: BaseException) -> None:
        self.errors = {int(number.removeprefix("at_")): error for number, error in errors.items()}

    def items(self, batch: list[int]) -> Iterator[int]:
        for number in batch:
            if number in self.errors:
                raise self.errors.pop(number)
            yield number


def cursor_of(dataset: Dataset, *, by_item: bool = True, **errors: BaseException) -> ItemCursor:
    interruptions = Interruptions(**errors)
    options = ReaderOptions(dataset, ExactOrder(seed=1))
    runner = PassRunner(reading_of(options), Batching(5), by_item=by_item)

    def convert(blocks: Iterator[Block]) -> Delivered:
        for block in blocks:
            for batch, mark, size in zip(block.batches(), block.marks, block.sizes, strict=True):
                made = interruptions.items(batch["number"].tolist())
                yield made if by_item else list(made), mark, size

    return ItemCursor(runner, lambda leg: runner.converted(leg.blocks(), convert))


def take_all(cursor: ItemCursor) -> list[Any]:
    return list(iter_of(cursor))


def iter_of(cursor: ItemCursor) -> Iterator[Any]:
    while True:
        try:
            yield cursor.take()
        except StopIteration:
            return


def test_its_end_stays_until_it_begins_anew(numbers: Dataset) -> None:
    cursor = cursor_of(numbers)
    assert take_all(cursor) == list(range(ROWS))
    with pytest.raises(StopIteration):
        cursor.take()
    cursor.restart()
    assert sorted(take_all(cursor)) == list(range(ROWS))


@pytest.mark.parametrize("by_item", [True, False])
def test_an_error_is_raised_again(numbers: Dataset, by_item: bool) -> None:
    cursor = cursor_of(numbers, by_item=by_item, at_7=ValueError("seven"))
    for _ in range(7 if by_item else 1):
        cursor.take()
    for _ in range(2):
        with pytest.raises(ValueError, match="seven"):
            cursor.take()
    cursor.restart()
    assert len(take_all(cursor)) == (ROWS if by_item else 3)


@pytest.mark.parametrize("at", [0, 4, 5, 7, 11])
def test_after_ctrl_c_the_next_item_comes(numbers: Dataset, at: int) -> None:
    cursor = cursor_of(numbers, **{f"at_{at}": KeyboardInterrupt()})
    found = [cursor.take() for _ in range(at)]
    with pytest.raises(KeyboardInterrupt):
        cursor.take()
    assert found + take_all(cursor) == list(range(ROWS))


def test_a_state_goes_on_with_the_next_item(numbers: Dataset) -> None:
    cursor, other = cursor_of(numbers), cursor_of(numbers)
    found = [cursor.take() for _ in range(7)]
    other.load_state_dict(cursor.state_dict())
    assert found + take_all(other) == list(range(ROWS))
    cursor.end()


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="processes cannot be forked"
)
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_goes_on_where_its_parent_stands(numbers: Dataset) -> None:
    cursor = cursor_of(numbers)
    found = [cursor.take() for _ in range(4)]
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    process = context.Process(target=lambda: sending.send(take_all(cursor)))
    process.start()
    assert receiving.poll(60)
    rest = receiving.recv()
    process.join()
    assert rest == take_all(cursor) == list(range(ROWS))[4:]
    assert found == list(range(4))
