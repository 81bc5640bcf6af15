"""A cursor over a reader's items resumes after interruptions, errors and loaded states."""

import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

import pytest
from tests.kit.interrupting import CtrlC
from tests.kit.loaders import in_either_order, lists
from tests.kit.small_datasets import write_numbers

from mdstorm._readers.item_cursor import ItemCursor
from mdstorm_backend import Dataset, ElasticOrder, ExactOrder
from mdstorm_backend.loaders import (
    MOST_UNUSED,
    Consumer,
    Loader,
    NumberedBatches,
    ReaderOptions,
    converted,
)
from mdstorm_backend.loaders.passes import Pass
from mdstorm_backend.read import Block

ROWS = 20
ORDERS: dict[str, ExactOrder | ElasticOrder] = {
    "exact": ExactOrder(seed=3, shuffle_shards=True, shuffle_rows=True),
    "elastic": ElasticOrder(1, shuffle=True, states_batch_size=False),
}


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return write_numbers(tmp_path_factory.mktemp("numbers") / "data", ROWS, tasks=10)


def cursor_over(
    dataset: Dataset,
    order: str = "exact",
    *,
    num_epochs: int = 1,
    convert: Callable[[Iterator[Block]], NumberedBatches] = lists,
) -> ItemCursor:
    """Return a cursor over the numbers in batches of three."""
    options = ReaderOptions(dataset, ORDERS[order], batch_size=3, num_epochs=num_epochs)
    loader = Loader(options, splits=True)
    return ItemCursor(loader, lambda segment: converted(segment.blocks(), convert))


@in_either_order
def test_unused_items_are_read_again_after_resuming(numbers: Dataset, order: str) -> None:
    whole = list(cursor_over(numbers, order))
    unused = 0
    items, other = cursor_over(numbers, order), cursor_over(numbers, order)
    with Consumer(lambda: unused).requesting():
        for number in range(1, ROWS + 1):
            assert next(items) == whole[number - 1]
            for unused in range(min(number, MOST_UNUSED) + 1):
                other.load_state_dict(items.state_dict())
                assert list(islice(other, 3)) == whole[number - unused :][:3]
        with pytest.raises(StopIteration):
            next(items)
    other.load_state_dict(items.state_dict())
    assert [next(other), next(other)] == whole[-2:]


@pytest.mark.parametrize("num_empty", [1, 2, 3])
def test_unused_item_is_read_again_if_batches_without_items_follow(
    numbers: Dataset, num_empty: int
) -> None:
    def until_empty(blocks: Iterator[Block]) -> NumberedBatches:
        batches = list(lists(blocks))
        for number, (items, offset, size) in enumerate(batches):
            yield items if number < len(batches) - num_empty else [], offset, size

    unused = 0
    items, other = (cursor_over(numbers, convert=until_empty) for _ in range(2))
    with Consumer(lambda: unused).requesting():
        whole = list(items)
        for unused in (1, 2):
            other.load_state_dict(items.state_dict())
            assert list(other) == whole[-unused:]


@pytest.mark.newest
@pytest.mark.usefixtures("ctrl_c_raises")
def test_ctrl_c_at_any_call_in_a_second_pass_loses_no_item(numbers: Dataset) -> None:
    kinds = (ItemCursor, Loader, Pass)
    files = {sys.modules[kind.__module__].__file__ for kind in kinds}

    def second_pass(interrupted: int) -> tuple[list[int], int]:
        """Interrupt a second pass at the given call; return its items and its number of calls."""
        cursor, calls = cursor_over(numbers), 0
        list(cursor)
        cursor.restart()

        def profile(frame: Any, event: str, _: object) -> None:
            nonlocal calls
            if "call" in event and frame.f_code.co_filename in files:
                calls += 1
                if calls == interrupted:
                    -CtrlC()  # type: ignore[operator]

        items: list[int] = []
        sys.setprofile(profile)
        try:
            while True:
                with suppress(KeyboardInterrupt):
                    items += [next(cursor)]
        except StopIteration:
            return items, calls
        finally:
            sys.setprofile(None)

    whole, calls = second_pass(0)
    assert len(whole) == ROWS
    for interrupted in range(1, calls + 1):
        assert second_pass(interrupted)[0] == whole


@in_either_order
def test_set_epoch_to_an_epoch_in_the_resumed_pass_keeps_a_state_within_the_first_batch(
    numbers: Dataset, order: str
) -> None:
    items, other = (cursor_over(numbers, order, num_epochs=2) for _ in range(2))
    list(islice(items, 2))
    other.load_state_dict(items.state_dict())
    other.loader.set_epoch(1)
    assert list(other) == list(items)


def test_state_after_the_rest_of_a_resumed_batch_is_between_batches(
    numbers: Dataset,
) -> None:
    cursor = cursor_over(numbers)
    list(islice(cursor, 2))
    loader = cursor_over(numbers).loader
    loader.load_state_dict(cursor.state_dict())
    assert loader.state_dict()["mdstorm"]["skip"] == 2
    batches = loader.run(lambda segment: converted(segment.blocks(), lists))
    next(batches)
    assert "skip" not in loader.state_dict()["mdstorm"]
    batches.close()


def test_blocks_are_closed_after_an_error_in_an_item(numbers: Dataset) -> None:
    closed: list[str] = []

    def watched(segment: Any) -> Generator[Block, None, None]:
        try:
            yield from segment.blocks()
        finally:
            closed.append("closed")

    def broken(blocks: Iterator[Block]) -> NumberedBatches:
        for items, offset, size in lists(blocks):
            yield (1 // (number % 7) for number in items), offset, size

    loader = cursor_over(numbers).loader
    items = ItemCursor(loader, lambda segment: converted(watched(segment), broken))
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            list(items)
        assert closed == ["closed"]
