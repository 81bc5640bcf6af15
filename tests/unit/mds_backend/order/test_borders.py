"""Limits of what orders accept and cut: the last value, and the first beyond it."""

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from mdstorm_backend.errors import MDStormError
from mdstorm_backend.order import Batching, ExactOrder, ExactPlan, Position, RowPlan
from mdstorm_backend.order.chunk import (
    Permutation,
    RowsInTurn,
    ShardRows,
    in_ranges,
    numbers_of,
    short_type,
)
from mdstorm_backend.order.lanes import Lanes
from mdstorm_backend.order.state_values import LATEST_RULE, lanes_of, number, rule_of
from mdstorm_backend.order.streams import StreamShape
from mdstorm_backend.order.weighting import check_epoch_size
from mdstorm_backend.order.windows import Windows


def lanes(count: int) -> list[list[int]]:
    return [[consumed, 1, 0] for consumed in range(count)]


def resumed(position: Position, epochs: int = 1) -> Position:
    """Resume a pass over ten rows at a position."""
    batching = Batching(2, num_epochs=epochs)
    plan = ExactPlan(ExactOrder(seed=1), np.array([0, 10]), batching=batching, start=position)
    return plan.resumed({})


def remaining(ranks: int) -> Position:
    """Return where some ranks resume for the last four of ten rows."""
    start = Position(consumed=6, lanes=(Lanes(0, 1),))
    order = ExactOrder(seed=1, world_size=ranks)
    return ExactPlan(order, np.array([0, 10]), batching=Batching(2), start=start).resolved_start


#: What is called with a value → the values at the limits, and those beyond them.
LIMITS: dict[str, tuple[Callable[[Any], Any], list[Any], list[Any]]] = {
    "a number in a state": (
        lambda value: number({"key": value}, "key", 1),
        [1, 2**63 - 1],
        [0, -1, 2**63],
    ),
    "rule of a state": (lambda rule: rule_of({"rule": rule}), [0, LATEST_RULE], [LATEST_RULE + 1]),
    "rule of an order": (
        lambda rule: ExactOrder(rule=rule),
        [0, LATEST_RULE],
        [-1, LATEST_RULE + 1],
    ),
    "lanes of a state": (lambda count: lanes_of({"lanes": lanes(count)}), [0, 1, 256], [257]),
    "position in an epoch": (
        lambda n: resumed(Position(consumed=n, lanes=(Lanes(0, 2),) * (0 < n < 10))),
        [0, 1, 9, 10],
        [11],
    ),
    "position without lanes": (lambda n: resumed(Position(consumed=n)), [0, 10], [1, 9]),
    "ranks of a position": (
        lambda size: resumed(Position(consumed=5, lanes=(Lanes(0, size),))),
        [1, 10],
        [11],
    ),
    "where later lanes of a position begin": (
        lambda begin: resumed(Position(consumed=5, lanes=(Lanes(0, 2), Lanes(begin, 1)))),
        [1, 5],
        [0, 6],
    ),
    "epoch of a pass": (
        lambda epoch: resumed(Position(epoch, first_epoch=0), epochs=2),
        [0, 1],
        [2],
    ),
    "ranks for four rows": (remaining, [1, 4], [5]),
    "ranks for no rows": (lambda ranks: ExactOrder(world_size=ranks).rows(0), [1, 99], []),
    "epoch size": (lambda size: check_epoch_size("size", size), [1, 2**62 - 1], [0, -1, 2**62]),
    "choose": (lambda value: StreamShape((1,), choose=value), [0, 1], [-1]),
    "repeat": (
        lambda value: StreamShape((1,), repeat=value),
        [0, 5e-324, 1e308],
        [-5e-324, np.inf],
    ),
}


@pytest.mark.parametrize("name", LIMITS)
def test_last_value_is_accepted_and_next_one_raises_error(name: str) -> None:
    call, accepted, refused = LIMITS[name]
    for value in accepted:
        call(value)
    for value in refused:
        with pytest.raises(MDStormError):
            call(value)


@pytest.mark.parametrize(
    ("windows", "ends"),
    [
        (Windows(), [1, 2, 3, 4, 5, 6]),
        (Windows(least=1), [1, 2, 3, 4, 5, 6]),
        (Windows(least=9), [2, 4, 6]),
        (Windows(least=10), [2, 4, 6]),
        (Windows(least=11), [3, 6]),
        (Windows(least=30), [6]),
        (Windows(queue=5), [3, 6]),
    ],
    ids=str,
)
def test_window_ends_with_the_shard_that_has_its_last_row(
    windows: Windows, ends: list[int]
) -> None:
    assert list(windows.ends(np.full(6, 5))) == ends


def test_numbers_at_both_ends_of_ranges_are_in_them_or_not() -> None:
    numbers = np.array([3, 4, 5, 8, 9, 10])
    places, owners = in_ranges(numbers, np.array([4, 8, 11]), np.array([1, 2, 3]))
    assert (places.tolist(), owners.tolist()) == ([1, 3, 4], [0, 1, 1])


def test_permutation_of_up_to_131_072_numbers_is_drawn_as_a_whole() -> None:
    """The order of rows depends on it, and states that were saved before rely on that order."""
    for size, is_drawn in ((1 << 17, True), ((1 << 17) + 1, False)):
        found = Permutation(size, np.random.default_rng(1)).numbers(range(size))
        assert np.array_equal(found, np.random.default_rng(1).permutation(size)) == is_drawn


@pytest.mark.parametrize(
    ("count", "type_"),
    [(1, "uint8"), (256, "uint8"), (257, "uint16"), (65_536, "uint16"), (65_537, "int64")],
)
def test_short_type_is_the_smallest_that_holds_numbers_below_a_count(
    count: int, type_: str
) -> None:
    assert short_type(count) == type_


@pytest.mark.parametrize("rows", [1, 3])
def test_samples_in_turns_have_the_shards_of_their_numbers(rows: int) -> None:
    bounds = np.arange(0, 13, rows)
    start = Position(consumed=2, lanes=(Lanes(0, 2), Lanes(2, 1)))
    plan = ExactPlan(ExactOrder(), bounds, batching=Batching(2), start=start)
    chunks = [chunk for chunk in plan.samples().chunks if isinstance(chunk, RowsInTurn)]
    assert sorted(number for chunk in chunks for number in chunk.numbers) == [
        *range(1, 6),
        *range(7, 12),
    ]
    for chunk in chunks:
        assert chunk.shards.tolist() == sorted({number // rows for number in chunk.numbers})


def test_rows_are_sorted_if_no_shard_comes_before_the_one_in_front() -> None:
    found = [
        ShardRows(np.arange(2), np.array([0, 5]), np.array(owners), np.arange(3)).is_sorted
        for owners in ([0, 0, 1], [0, 1, 0])
    ]
    assert found == [True, False]


def test_position_has_begun_with_the_first_sample_or_batch_that_is_left_out() -> None:
    positions = [Position(), Position(consumed=1), Position(skip=1)]
    assert [position.resumes_with(0, 1) for position in positions] == [False, True, True]


def test_offset_after_the_last_batch_is_none() -> None:
    plan = ExactPlan(ExactOrder(seed=1), np.array([0, 10]), batching=Batching(2))
    assert [plan.offset_after(batches) for batches in (1, 5, 6)] == [1, 5, None]


def test_chunks_of_any_positions_have_samples() -> None:
    """A chunk without samples would open a window of shards for nothing."""
    order, bounds = ExactOrder(seed=1, shuffle_shards=True, shuffle_rows=True), np.arange(0, 13, 3)
    whole = [n for c in order.chunks(bounds, range(12), 0, 0, range(12)) for n in numbers_of(c)]
    for start, stop in combinations(range(13), 2):
        chunks = list(order.chunks(bounds, range(12), 0, 0, range(start, stop)))
        assert all(map(len, chunks))
        assert [n for chunk in chunks for n in numbers_of(chunk)] == whole[start:stop]


def test_position_has_lanes_only_within_an_epoch() -> None:
    plan = ExactPlan(ExactOrder(seed=1), np.array([0, 10]), batching=Batching(2))
    found = [plan.reached(samples).lanes for samples in (0, 1, 9, 10)]
    assert found == [(), (Lanes(0, 1),), (Lanes(0, 1),), ()]


@pytest.mark.parametrize(
    ("rows", "sizes"), [(8, [4]), (9, [2, 3]), (10, [4, 1]), (11, [4, 2]), (16, [4, 4])]
)
def test_last_full_batch_is_halved_if_fewer_samples_than_ranks_would_remain(
    rows: int, sizes: list[int]
) -> None:
    plan = ExactPlan(ExactOrder(world_size=2), np.array([0, rows]), batching=Batching(4))
    assert list(plan.samples().sizes) == sizes


@pytest.mark.parametrize(
    ("batching", "ranks", "first"),
    [
        (Batching(4, "as stored"), 1, 10),
        (Batching(4, "as stored"), 2, 5),
        (Batching(4, "as stored", drop_last=True), 1, 8),
        (Batching(4, "as stored", drop_last=True), 2, 4),
        (Batching(4, "as stored", by_shard=True), 1, 10),
        (Batching(4, "as stored", by_shard=True), 2, None),  # other ranks may have batches left
        (Batching(4, "as returned"), 1, None),  # a function may return further rows
    ],
)
def test_pass_over_ten_rows_has_ended_after_the_last_row_of_its_last_batch(
    batching: Batching, ranks: int, first: int | None
) -> None:
    plan = RowPlan(ExactOrder(seed=1, world_size=ranks), np.array([0, 5, 10]), batching=batching)
    rows = range(1, plan.rows_per_epoch + 1)
    ends = [row for row in rows if plan.position(RowPlan.offset(0, row)).is_end]
    assert ends[:1] == ([] if first is None else [first])
