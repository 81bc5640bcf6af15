"""The loop that runs passes, without any framework: batches, states, interruptions, threads."""

from __future__ import annotations

import copy
import json
import pickle
import threading
from collections.abc import Callable, Generator, Iterator
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.mds_backend.small_datasets import write_numbers

from mdstorm_backend.base.pass_threads import PassThreads
from mdstorm_backend.datasets.dataset import Dataset
from mdstorm_backend.elastic import ElasticOrder, ElasticShare
from mdstorm_backend.errors import StateMismatchError
from mdstorm_backend.loaders.legs import Batching, Leg
from mdstorm_backend.loaders.reader_options import ReaderOptions
from mdstorm_backend.loaders.runner import NOTHING, Delivered, PassRunner, mark_and_rows, reading_of
from mdstorm_backend.order.exact import ExactOrder
from mdstorm_backend.read.block import Block

ROWS = 20
ORDERS: dict[str, ExactOrder | ElasticShare] = {
    "exact": ExactOrder(seed=3, shuffle_shards=True, shuffle_rows=True),
    "elastic": ElasticShare(ElasticOrder(1, shuffle=True), states_batch_size=False),
}
in_either_order = pytest.mark.parametrize("order", list(ORDERS))


@pytest.fixture(scope="module")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """Twenty numbers in four shards."""
    return write_numbers(tmp_path_factory.mktemp("numbers"), ROWS, tasks=4)


def runner_of(
    dataset: Dataset,
    order: str = "exact",
    batch_size: int = 3,
    *,
    num_epochs: int | None = 1,
    drop_last: bool = False,
    by_shard: bool = False,
    **options: Any,
) -> PassRunner:
    read = ReaderOptions(dataset, ORDERS[order], num_epochs=num_epochs)
    batching = Batching(batch_size, drop_last, by_shard=by_shard)
    return PassRunner(reading_of(read), batching, **options)


def lists(blocks: Iterator[Block]) -> Delivered:
    for block in blocks:
        for batch, mark, size in zip(block.batches(), block.marks, block.sizes, strict=True):
            yield batch["number"].tolist(), mark, size


def read_by(runner: PassRunner, convert: Callable[..., Delivered] = lists) -> Any:
    return runner.run(lambda leg: runner.converted(leg.blocks(), convert))


def flat(batches: Any) -> list[int]:
    return [number for batch in batches for number in batch]


class TestBatches:
    """What a pass delivers."""

    def test_nothing_happens_before_the_first_batch_is_asked_for(self, numbers: Dataset) -> None:
        def deliver(leg: Leg) -> Delivered:
            raise AssertionError("nobody has asked")

        runner = runner_of(numbers)
        before = runner.state_dict()
        runner.run(deliver)
        assert runner.state_dict() == before

    @in_either_order
    def test_what_is_nothing_counts_and_is_not_delivered(
        self, numbers: Dataset, order: str
    ) -> None:
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
    def test_a_block_as_a_whole_is_as_far_as_its_batches(
        self, numbers: Dataset, order: str
    ) -> None:
        def blocks_of(blocks: Iterator[Block]) -> Delivered:
            for block in blocks:
                yield block, *mark_and_rows(block)

        in_batches, in_blocks = runner_of(numbers, order), runner_of(numbers, order)
        assert len(list(read_by(in_blocks, blocks_of))) < len(list(read_by(in_batches)))
        assert in_blocks.state_dict() == in_batches.state_dict()
        assert in_blocks.rows == in_batches.rows == ROWS


def pickled(runner: PassRunner) -> PassRunner:
    return pickle.loads(pickle.dumps(runner))  # type: ignore[no-any-return]  # noqa: S301


def rest_after(runner: PassRunner, taken: int) -> tuple[dict[str, Any], list[int]]:
    """The state after some batches, and what comes after it."""
    batches = read_by(runner)
    list(islice(batches, taken))
    state = json.loads(json.dumps(runner.state_dict()))
    return state, flat(batches)


class TestPlaces:
    """Where the passes stand, and going on from there."""

    @in_either_order
    def test_the_place_is_that_of_the_iteration_advanced_last(
        self, numbers: Dataset, order: str
    ) -> None:
        runner = runner_of(numbers, order)
        first, second = read_by(runner), read_by(runner)
        next(first), next(second), next(first)
        other = runner_of(numbers, order)
        other.load_state_dict(runner.state_dict())
        assert flat(read_by(other)) == flat(first)
        second.close()

    def test_epochs_whose_rows_are_all_left_out_count_as_well(self, numbers: Dataset) -> None:
        # Two batches end with the third epoch; the fourth has fewer rows than a batch.
        runner = runner_of(numbers, batch_size=30, num_epochs=4, drop_last=True)
        assert len(list(read_by(runner))) == 2
        other = runner_of(numbers, batch_size=30, num_epochs=4, drop_last=True)
        other.reading.next_epoch = 4
        assert flat(read_by(runner)) == flat(read_by(other))

    @in_either_order
    def test_or_of_the_one_begun_last_where_that_is_asked_for(
        self, numbers: Dataset, order: str
    ) -> None:
        runner = runner_of(numbers, order, follows_begun=True)
        first, second = read_by(runner), read_by(runner)
        next(first), next(second), next(first)
        other = runner_of(numbers, order)
        other.load_state_dict(runner.state_dict())
        assert flat(read_by(other)) == flat(second)
        first.close()

    @in_either_order
    @pytest.mark.parametrize("duplicate", [copy.deepcopy, pickled])
    @pytest.mark.parametrize("batches", [7, None], ids=["last batch", "end"])
    def test_a_copy_made_after_the_end_of_a_pass_begins_the_next_one(
        self,
        numbers: Dataset,
        order: str,
        duplicate: Callable[[Any], PassRunner],
        batches: int | None,
    ) -> None:
        runner = runner_of(numbers, order)
        assert len(flat(islice(read_by(runner), batches))) == ROWS
        other = duplicate(runner.to_continue(PassThreads()))
        following = flat(read_by(other))
        assert sorted(following) == list(range(ROWS))
        assert following == flat(read_by(runner))

    def test_a_batch_that_the_check_refuses_does_not_count(self, numbers: Dataset) -> None:
        class StoppedError(Exception):
            pass

        calls: list[int] = []

        def check() -> None:
            calls.append(1)
            if len(calls) == 3:
                raise StoppedError

        runner = runner_of(numbers, check=check)
        with pytest.raises(StoppedError):
            list(read_by(runner))
        assert runner.rows == 6


def items(blocks: Iterator[Block]) -> Delivered:
    for batch, mark, size in lists(blocks):
        yield iter(batch), mark, size


class TestItems:
    """Batches that are delivered item by item."""

    @given(st.integers(0, ROWS - 1))
    def test_a_state_says_how_many_of_a_batch_were_delivered(
        self, numbers: Dataset, taken: int
    ) -> None:
        expected = list(read_by(runner_of(numbers, by_item=True), items))
        assert sorted(expected) == list(range(ROWS))
        runner = runner_of(numbers, by_item=True)
        running = read_by(runner, items)
        assert list(islice(running, taken)) == expected[:taken]
        other = runner_of(numbers, by_item=True)
        other.load_state_dict(json.loads(json.dumps(runner.state_dict())))
        assert list(read_by(other, items)) == expected[taken:]
        running.close()

    @pytest.mark.parametrize("wrong", [-1, 1.5, "2", None, True])
    def test_another_number_is_refused(self, numbers: Dataset, wrong: Any) -> None:
        runner = runner_of(numbers, by_item=True)
        state = runner.state_dict()
        state["mdstorm"]["items"] = wrong
        with pytest.raises(StateMismatchError, match="'items' has to be an integer from 0 on"):
            runner.load_state_dict(state)


class TestThreads:
    """The threads that read ahead end with their pass, however that ends."""

    @pytest.fixture(autouse=True)
    def _no_thread_is_left(self) -> Iterator[None]:
        before = set(threading.enumerate())
        yield
        assert set(threading.enumerate()) <= before

    def test_at_the_end(self, numbers: Dataset) -> None:
        list(read_by(runner_of(numbers)))

    def test_after_an_error(self, numbers: Dataset) -> None:
        def failing(blocks: Iterator[Block]) -> Delivered:
            yield from islice(lists(blocks), 2)
            raise ValueError("after two batches")

        with pytest.raises(ValueError, match="after two batches") as kept:
            list(read_by(runner_of(numbers), failing))
        assert kept.value.__traceback__  # which keeps the generators alive

    def test_after_a_break_once_somebody_waits_for_them(self, numbers: Dataset) -> None:
        runner = runner_of(numbers)
        batches = runner.threads.follow(read_by(runner))
        next(batches)
        runner.threads.end()
        assert list(batches) == []

    def test_blocks_are_closed_after_what_is_made_of_them(self, numbers: Dataset) -> None:
        closed: list[str] = []

        def noted(name: str, steps: Iterator[Any]) -> Generator[Any, None, None]:
            try:
                yield from steps
            finally:
                closed.append(name)

        runner = runner_of(numbers)
        batches = runner.run(
            lambda leg: runner.converted(
                noted("blocks", leg.blocks()), lambda blocks: noted("batches", lists(blocks))
            )
        )
        next(batches)
        batches.close()
        assert closed == ["batches", "blocks"]
        runner.threads.wait()
