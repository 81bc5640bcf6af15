"""Passes without any framework: reading ahead, yielding, counting, resuming and closing."""

import signal
from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tests.kit.interrupting import CtrlC
from tests.kit.loaders import Filter, Where, in_either_order, lists, options_of, torch_loader
from tests.kit.small_datasets import write_dataset, write_numbers

from mdstorm_backend import Dataset, ElasticOrder, ExactOrder
from mdstorm_backend.errors import StateMismatchError
from mdstorm_backend.format import Batch
from mdstorm_backend.loaders import (
    Conditions,
    Loader,
    ReaderOptions,
    Segment,
    converted,
)
from mdstorm_backend.loaders.loader import NOTHING, NumberedBatches
from mdstorm_backend.order import Position
from mdstorm_backend.read.block import Block
from mdstorm_backend.read.reader import BLOCK_ROWS

ROWS, SHARDS = 20, 10
ORDERS: dict[str, ExactOrder | ElasticOrder] = {
    "exact": ExactOrder(seed=3, shuffle_shards=True, shuffle_rows=True),
    "elastic": ElasticOrder(1, shuffle=True, states_batch_size=False),
}
ODD = Filter(lambda number: number % 2 == 1)


class Sum:
    """A transform that returns the sum of two columns."""

    columns = ("c",)

    def __call__(self, batch: Batch) -> Batch:
        return {"c": batch["a"] + batch["b"]}  # type: ignore[operator]


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    return write_dataset(tmp_path, {"a": [1, None], "b": [3, 4]}, {"a": "long", "b": "long"})


def options(dataset: Dataset, **given: Any) -> ReaderOptions:
    return options_of(dataset, ExactOrder(seed=1), **given)


def test_nulls_are_filled_before_the_transform(dataset: Dataset) -> None:
    filled = options(dataset, batch_size=2, fill_nulls={"a": 10}, transform=Sum())
    blocks = Segment(filled, Position()).blocks()
    assert [block.batch["c"].tolist() for block in blocks] == [[4, 14]]  # type: ignore[union-attr]


def test_number_of_samples_read_ahead_depends_on_sample_size(dataset: Dataset) -> None:
    assert options(dataset, batch_size=16).samples_ahead == BLOCK_ROWS
    dataset.nbytes = 1 << 40
    assert options(dataset, batch_size=16).samples_ahead == 8 * 16
    assert options(dataset, batch_size=16, predownload=3).samples_ahead == 3


def test_bytes_downloaded_ahead_do_not_depend_on_sample_size(dataset: Dataset) -> None:
    dataset.nbytes, dataset.bytes_ahead = 2 * len(dataset), 1_000_000
    assert options(dataset, batch_size=16).samples_ahead == 500_000


@pytest.mark.parametrize(("part", "num_workers", "in_first"), [(0, 0, 2), (1, 3, 1)])
def test_block_spans_few_epochs_in_an_infinite_pass(
    tmp_path: Path, part: int, num_workers: int, in_first: int
) -> None:
    numbers = write_numbers(tmp_path, 2)
    endless = options(numbers, num_workers=num_workers, num_epochs=None)
    blocks: Any = Segment(endless, Position()).blocks(part)
    with closing(blocks):
        first, *_, last = islice(blocks, 8)
    assert (len(first.sizes), len(last.sizes)) == (in_first, 32)


def loader_of(
    dataset: Dataset,
    order: str = "exact",
    batch_size: int = 3,
    *,
    num_epochs: int | None = 1,
    drop_last: bool = False,
    transform: Any = None,
) -> Loader:
    read = options_of(
        dataset,
        ORDERS[order],
        batch_size=batch_size,
        drop_last=drop_last,
        num_epochs=num_epochs,
        transform=transform,
    )
    return Loader(read)


def read_by(loader: Loader, convert: Callable[..., NumberedBatches] = lists) -> Any:
    return loader.run(lambda segment: converted(segment.blocks(), convert))


def flat(batches: Any) -> list[int]:
    return [number for batch in batches for number in batch]


@in_either_order
def test_empty_items_are_neither_yielded_nor_counted(numbers: Dataset, order: str) -> None:
    def odd(blocks: Iterator[Block]) -> NumberedBatches:
        for number, (batch, offset, size) in enumerate(lists(blocks)):
            yield batch if number % 2 else NOTHING, offset, size

    expected = list(read_by(loader_of(numbers, order)))
    loader = loader_of(numbers, order)
    batches = read_by(loader, odd)
    assert [next(batches), next(batches)] == [expected[1], expected[3]]
    assert loader.rows == 6
    batches.close()


@in_either_order
def test_states_before_latest_batches_resume_with_these_batches_in_each_epoch(
    numbers: Dataset, order: str
) -> None:
    whole = list(read_by(loader_of(numbers, order, num_epochs=2)))
    loader = loader_of(numbers, order, num_epochs=2)
    for taken_batches, _ in enumerate(read_by(loader), 1):
        for unused in (1, 2):
            other = loader_of(numbers, order, num_epochs=2)
            other.load_state_dict(loader.state_dict(unused=unused))
            assert list(read_by(other)) == whole[max(taken_batches - unused, 0) :]


@in_either_order
def test_state_before_last_batch_resumes_with_that_batch_if_empty_items_follow(
    numbers: Dataset, order: str
) -> None:
    def first(blocks: Iterator[Block]) -> NumberedBatches:
        for number, (batch, offset, size) in enumerate(lists(blocks)):
            yield NOTHING if number else batch, offset, size

    loader, other = loader_of(numbers, order), loader_of(numbers, order)
    (only,) = read_by(loader, first)
    other.load_state_dict(loader.state_dict(unused=1))
    assert list(read_by(other, first)) == [only]


@pytest.mark.matrix
@in_either_order
@pytest.mark.parametrize("batch_size", [1, 3, 7, 15])
@pytest.mark.parametrize("drop_last", [False, True])
def test_resumed_pass_counts_remaining_batches_in_all_epochs(
    numbers: Dataset, order: str, batch_size: int, drop_last: bool
) -> None:
    loader, other = (
        loader_of(numbers, order, batch_size, num_epochs=3, drop_last=drop_last) for _ in range(2)
    )
    assert other.num_remaining() == 0  # the next iteration begins a pass
    states = [loader.state_dict() for _ in read_by(loader)]
    left = []
    for state in states:
        other.load_state_dict(state)
        left.append(other.num_remaining())
    assert left == [*range(len(states))][::-1]


@in_either_order
def test_resumed_infinite_pass_has_no_number_of_remaining_batches(
    numbers: Dataset, order: str
) -> None:
    loader, other = (loader_of(numbers, order, num_epochs=None) for _ in range(2))
    batches = read_by(loader)
    next(batches)
    other.load_state_dict(loader.state_dict())
    assert other.num_remaining() is None
    batches.close()


@pytest.mark.parametrize(("batch_size", "transform"), [(30, None), (15, ODD)])
def test_pass_after_epoch_with_rows_dropped_by_drop_last_begins_next_epoch(
    numbers: Dataset, batch_size: int, transform: Any
) -> None:
    # The second batch ends at the end of the third epoch; the fourth does not fill a batch.
    options: dict[str, Any] = {"num_epochs": 4, "drop_last": True, "transform": transform}
    loader, other = (loader_of(numbers, batch_size=batch_size, **options) for _ in range(2))
    assert len(list(read_by(loader))) == 2
    other.set_epoch(4)
    assert flat(read_by(loader)) == flat(read_by(other))


@in_either_order
@pytest.mark.usefixtures("ctrl_c_raises")
def test_state_after_interrupt_in_pass_callback_resumes_with_next_batch(
    numbers: Dataset, order: str
) -> None:
    def interrupted(_: object) -> None:
        signal.raise_signal(signal.SIGINT)

    loader, other = (loader_of(numbers, order) for _ in range(2))
    loader.epochs.follow(replace(loader.options, on_pass=interrupted))
    seen: list[Any] = []
    with pytest.raises(KeyboardInterrupt):
        seen.extend(read_by(loader))
    assert not seen
    other.load_state_dict(loader.state_dict())
    assert seen + list(read_by(other)) == list(read_by(loader_of(numbers, order)))


def test_pass_callback_is_called_when_a_state_within_an_epoch_is_loaded(
    numbers: Dataset,
) -> None:
    loader, other = (loader_of(numbers, "exact") for _ in range(2))
    passes: list[Any] = []
    other.epochs.follow(replace(other.options, on_pass=passes.append))
    other.load_state_dict(loader.state_dict())  # the beginning of an epoch: nothing was read
    assert not passes
    batches = iter(read_by(loader))
    next(batches)
    other.load_state_dict(loader.state_dict())
    assert passes == [other.epochs]


class InterruptedOffset(int):
    """An offset that is interrupted when first compared, just before a batch is recorded.

    Attributes
    ----------
    compared : int
        The number of comparisons.
    """

    compared = 0

    def __ge__(self, other: int) -> bool:
        found = int(self) >= other
        self.compared += 1
        if self.compared == 1:
            -CtrlC()  # type: ignore[operator]
        return found


@pytest.mark.usefixtures("ctrl_c_raises")
def test_state_after_interrupt_as_batch_is_recorded_resumes_with_next_batch(
    numbers: Dataset,
) -> None:
    def made(segment: Segment) -> Any:
        for number, (batch, offset, size) in enumerate(lists(segment.blocks())):
            yield batch, (InterruptedOffset(offset) if number == 2 else offset), size

    loader, other = loader_of(numbers), loader_of(numbers)
    seen: list[int] = []
    with pytest.raises(KeyboardInterrupt):  # noqa: PT012
        for batch in loader.run(lambda segment: [made(segment)]):
            seen += batch
    other.load_state_dict(loader.state_dict())
    assert seen + flat(read_by(other)) == flat(read_by(loader_of(numbers)))


def test_blocks_are_closed_after_their_batches(numbers: Dataset) -> None:
    closed: list[str] = []

    def noted(name: str, steps: Iterator[Any]) -> Generator[Any, None, None]:
        try:
            yield from steps
        finally:
            closed.append(name)

    loader = loader_of(numbers)
    batches = loader.run(
        lambda segment: converted(
            noted("blocks", segment.blocks()), lambda blocks: noted("batches", lists(blocks))
        )
    )
    next(batches)
    batches.close()
    assert closed == ["batches", "blocks"]
    loader.threads.wait()


def test_loader_of_batches_refuses_state_within_a_batch(numbers: Dataset) -> None:
    state = loader_of(numbers).state_dict()
    assert "skip" not in state["mdstorm"]
    within = {**state, "mdstorm": {**state["mdstorm"], "skip": 2}}
    loader = loader_of(numbers)
    with pytest.raises(StateMismatchError, match="after 2 items of a batch"):
        loader.load_state_dict(within)
    assert loader.state_dict() == state
    splitting = replace(loader, splits=True)
    splitting.load_state_dict(within)
    assert splitting.state_dict() == within


@dataclass(frozen=True)
class Limited(Conditions):
    """The conditions of a version with another argument."""

    limit: int | None = None


@in_either_order
def test_states_compare_each_field_of_the_conditions(numbers: Dataset, order: str) -> None:
    def loader(limit: int | None) -> Loader:
        conditions = Limited(filters="number > 2", limit=limit)
        return Loader(ReaderOptions(numbers, ORDERS[order], batch_size=3, conditions=conditions))

    first = loader(3)
    next(read_by(first))
    state = first.state_dict()
    loader(3).load_state_dict(state)
    with pytest.raises(StateMismatchError, match=r"\(limit: 3 there, 4 here\)"):
        loader(4).load_state_dict(state)
    del state["mdstorm"]["limit"]  # as if an older version had taken it
    loader(None).load_state_dict(state)
    with pytest.raises(StateMismatchError, match=r"\(limit: None there, 3 here\)"):
        loader(3).load_state_dict(state)


def row_groups(dataset: Dataset, rank: int) -> Loader:
    """Return a loader of row groups for one of three ranks, one of which has one row fewer."""
    order = ExactOrder(seed=3, window=15, rank=rank, world_size=3)
    return Loader(ReaderOptions(dataset, order, batch_size=ROWS, by_shard=True))


def groups_of(loader: Loader) -> Iterator[list[int]]:
    def groups(blocks: Iterator[Any]) -> NumberedBatches:
        for block in blocks:
            yield block.batch["number"].tolist(), block.offsets[-1], sum(block.sizes)

    return read_by(loader, groups)  # type: ignore[no-any-return]


def test_row_group_state_raises_error_in_batch_loader_and_vice_versa(
    numbers: Dataset,
) -> None:
    share = {"seed": 3, "window": 15, "rank": 0, "world_size": 3}
    groups, batches = row_groups(numbers, 0), torch_loader(numbers, shuffle=share)
    running = iter(groups_of(groups)), iter(batches)
    for one in running:
        next(one)
    fresh = row_groups(numbers, 0)
    for loads, saves in ((torch_loader(numbers, shuffle=share), groups), (fresh, batches)):
        with pytest.raises(StateMismatchError, match="the state counts the rows of"):
            loads.load_state_dict(saves.state_dict())
    assert list(groups_of(fresh)) == list(groups_of(row_groups(numbers, 0)))


@pytest.mark.parametrize("rank", range(3))
def test_state_after_any_row_group_resumes_with_the_next_row_group(
    numbers: Dataset, rank: int
) -> None:
    whole = list(groups_of(row_groups(numbers, rank)))
    for done in range(1, len(whole)):
        before, after = row_groups(numbers, rank), row_groups(numbers, rank)
        list(islice(groups_of(before), done))
        after.load_state_dict(before.state_dict())
        assert list(groups_of(after)) == whole[done:]


@pytest.mark.parametrize("read", [list, lambda loader: next(iter(loader), None)])
def test_warning_points_to_the_iterating_line(tmp_path: Path, read: Any) -> None:
    empty, numbers = write_numbers(tmp_path / "empty", 0), write_numbers(tmp_path / "numbers", 10)
    none_left = torch_loader(numbers, transform=Where(lambda number: number < 0))
    for stream in (torch_loader(empty), empty.batches(4), torch_loader(empty).dataset, none_left):
        text = "the transform left no rows" if stream is none_left else "the dataset has no rows"
        with pytest.warns(UserWarning, match=text) as recorded:
            assert not read(stream)
        assert {message.filename for message in recorded} == {__file__}
