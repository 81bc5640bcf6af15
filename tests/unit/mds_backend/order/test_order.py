"""The exact order: seeds, shards, partial permutations, and lanes across chains of worlds."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice, product
from math import gcd
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mdstorm_backend.errors import (
    InvalidArgumentError,
    NoDataAvailableError,
    StateMismatchError,
)
from mdstorm_backend.order import (
    DEFAULT_SEED,
    Batching,
    ExactOrder,
    ExactPlan,
    Order,
    Position,
    RowPlan,
    World,
    order_named,
    order_names,
)
from mdstorm_backend.order import chunk as chunk_module
from mdstorm_backend.order.chunk import Permutation, RowsOnDemand
from mdstorm_backend.order.lanes import EpochLanes, Lanes, stride
from mdstorm_backend.order.plan import Cut
from mdstorm_backend.read.block import Located

#: The orders whose epochs are cut into lanes.
ORDERS_OF_LANES = [name for name in order_names() if name != "elastic"]
#: Makes a test compute permutations of any size in parts, like large permutations.
IN_PARTS = pytest.mark.usefixtures("none_is_drawn_at_once")


def pieces(order: ExactOrder, sizes: list[int], epoch: int = 0) -> list[range]:
    bounds = np.cumsum([0, *sizes])
    return order.pieces(bounds, order.rows(sum(sizes)), epoch, order.rank)


def test_rows_of_a_rank_are_known_if_there_are_as_many_rows_as_ranks() -> None:
    ranks = [ExactOrder(rank=rank, world_size=3) for rank in range(3)]
    counts = [[order.rows_of_rank(rows) for order in ranks] for rows in (2, 3, 7)]
    assert counts == [[None] * 3, [1, 1, 1], [3, 2, 2]]


def test_permutations_differ_between_epochs_windows_and_seeds() -> None:
    bounds, found = np.array([0, 50, 100]), set()
    for seed, epoch in product((1, 2), (0, 1)):
        order = ExactOrder(seed=seed, shuffle_rows=True)
        for number, chunk in enumerate(order.chunks(bounds, range(100), epoch, 0, range(100))):
            rows = [row - 50 * number for row in Located(chunk, bounds).numbers()]
            assert rows == order.permutation(50, epoch, 0, number).tolist()
            found.add(tuple(rows))
    assert len(found) == 8


def test_rows_in_large_windows_are_within_their_shards() -> None:
    """Sample numbers cannot reveal wrong rows, because errors in shard and row cancel out."""
    sizes = np.array([400_000, *[1] * 1_500, 200_000])  # many small shards between large ones
    bounds = np.concatenate([[0], np.cumsum(sizes)])
    order = ExactOrder(seed=1, window=int(bounds[-1]))
    (window,) = order.chunks(bounds, range(bounds[-1]), 0, 0, range(bounds[-1]))
    assert isinstance(window, RowsOnDemand)
    found = window.found()
    assert found.rows.min() == 0
    assert (found.rows < sizes[found.shards[found.owners]]).all()


def test_window_contains_exactly_the_rows_that_it_permutes() -> None:
    bounds = np.array([0, 5, 6, 10, 30])
    order = ExactOrder(seed=1, shuffle_shards=True, window=8)
    for chunk in order.chunks(bounds, range(3, 25), 0, 0, range(22)):
        assert isinstance(chunk, RowsOnDemand)
        found, places = chunk.window.places(np.arange(30))
        assert found.tolist() == chunk.window.rows(range(len(found))).numbers[places].tolist()
        assert sorted(found) == sorted(chunk.found().numbers)


def test_shards_in_a_share_have_a_different_order_in_each_epoch() -> None:
    order = ExactOrder(seed=1, shuffle_shards=True, rank=1, world_size=2)
    orders = {tuple(pieces(order, [5] * 20, epoch)) for epoch in range(5)}
    assert len(orders) == 5
    others = {tuple(pieces(replace(order, seed=seed), [5] * 20)) for seed in range(2, 5)}
    assert len({frozenset(found) for found in orders | others}) == 1


@pytest.mark.parametrize("seed", [None, 0])
def test_unset_seed_becomes_the_default_with_several_ranks_and_random_otherwise(
    seed: int | None,
) -> None:
    shares = [ExactOrder(seed, shuffle_rows=True, rank=r, world_size=2) for r in range(2)]
    assert {share.resolved().seed for share in shares} == {DEFAULT_SEED}
    assert replace(shares[0], seed=5).resolved().seed == 5
    alone = [ExactOrder(seed, shuffle_rows=True).resolved() for _ in range(3)]
    assert len({order.seed for order in alone}) == 3
    assert all(order.seed and order.resolved() is order for order in alone)


def test_rank_outside_the_world_raises_error() -> None:
    with pytest.raises(InvalidArgumentError, match="rank 2 of 2 does not exist"):
        ExactOrder(rank=2, world_size=2)


def test_fewer_rows_than_ranks_raise_no_data_available_error() -> None:
    with pytest.raises(NoDataAvailableError, match=r"2 rows for 3 ranks\. Use fewer") as caught:
        ExactOrder(rank=0, world_size=3).rows(2)
    assert not isinstance(caught.value, (ValueError, RuntimeError))


@pytest.mark.parametrize("seed", [-1, 1.5, "1", True])
def test_seed_must_be_a_non_negative_integer_or_none(seed: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="seed must be an integer of at least 0 or None"):
        ExactOrder(seed=seed)


def test_numpy_integers_become_python_integers() -> None:
    order = ExactOrder(seed=np.uint32(7), window=np.int64(3), world_size=np.int64(2)).resolved()
    assert (order.seed, order.window, order.world_size) == (7, 3, 2)
    assert {type(v) for v in (order.seed, order.window, order.world_size)} == {int}


def test_rank_slices_skip_shards_without_rows_of_the_rank() -> None:
    order = ExactOrder(rank=1, world_size=2)
    assert order.rows(10) == range(5, 10)
    assert pieces(order, [0, 3, 4, 0, 3]) == [range(5, 7), range(7, 10)]


@pytest.fixture
def none_is_drawn_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunk_module, "FEW_NUMBERS", 0)


@IN_PARTS
@given(size=st.integers(1, 5000), seed=st.integers(0, 9), cut=st.integers(0, 5000))
@example(size=4096, seed=1, cut=4096)
@example(size=4097, seed=1, cut=1)
def test_permutation_parts_contain_every_number_once(size: int, seed: int, cut: int) -> None:
    permutation = Permutation(size, np.random.default_rng(seed))
    cut = min(cut, size)
    parts = [permutation.numbers(range(cut)), permutation.numbers(range(cut, size))]
    whole = permutation.numbers(range(size))
    assert np.concatenate(parts).tolist() == whole.tolist()
    assert sorted(whole.tolist()) == list(range(size))
    assert permutation.places(whole).tolist() == list(range(size))


@IN_PARTS
@pytest.mark.parametrize("size", [140_000, 262_144, 262_145])
def test_permutation_is_statistically_random(size: int) -> None:
    numbers = Permutation(size, np.random.default_rng(5)).numbers(range(size))
    side = 1 << (size.bit_length() + 1) // 2
    batches = numbers[: size // 1000 * 1000].reshape(-1, 1000)
    of_row, of_column, of_shard = batches // side, batches % side, batches // 997 == 7
    for values in (batches, batches % 2, batches % 10, of_row, of_column, of_shard):
        expected = values.var() / 1000 * (1 - 1000 / size)
        assert values.mean(axis=1).var() == pytest.approx(expected, rel=0.6)
    for apart in (1, side):  # neighbours are no closer than other numbers
        steps = np.abs(numbers[apart:] - numbers[:-apart])
        assert steps.mean() == pytest.approx(size / 3, rel=0.02)
        assert (steps == apart).sum() < 20
    assert (numbers == np.arange(size)).sum() < 10


@IN_PARTS
@given(
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=40).filter(any),
    window=st.integers(1, 200),
    seed=st.integers(1, 9),
    data=st.data(),
)
def test_rows_read_in_arbitrary_parts_equal_rows_read_in_whole_windows(
    sizes: list[int], window: int, seed: int, data: st.DataObject
) -> None:
    bounds = np.cumsum([0, *sizes])
    order = ExactOrder(seed=seed, shuffle_shards=True, window=window)
    rows = order.rows(sum(sizes))
    whole = [
        Located(c, bounds).numbers() for c in order.chunks(bounds, rows, 0, 0, range(len(rows)))
    ]
    samples = list(chain.from_iterable(whole))
    assert sorted(samples) == list(rows)
    shards = np.searchsorted(bounds, np.arange(len(rows)), side="right")
    for chunk in whole[:-1]:
        assert len(chunk) >= window  # windows contain as many whole shards as needed
        assert len(chunk) == np.isin(shards, shards[chunk]).sum()
    start = data.draw(st.integers(0, len(rows)))
    stop = data.draw(st.integers(start, len(rows)))
    part = order.chunks(bounds, rows, 0, 0, range(start, stop))
    halves = [c[half] for c in part for half in (slice(len(c) // 2), slice(len(c) // 2, None))]
    found = [Located(half, bounds).numbers() for half in halves]
    assert list(chain.from_iterable(found)) == samples[start:stop]


def batches_of(plan: ExactPlan) -> list[list[int]]:
    """Return the numbers in each batch from all parts, in order of batch offset."""
    found: dict[int, list[int]] = {}
    for part in range(plan.batching.num_parts):
        chunks, sizes, offsets = plan.samples(part)
        numbers = chain.from_iterable(Located(chunk, plan.bounds).numbers() for chunk in chunks)
        for size, offset in zip(sizes, offsets, strict=False):
            found[offset] = [next(numbers) for _ in range(size)]
    batches = [found[offset] for offset in range(1, len(found) + 1)]
    if plan.batching.num_epochs is not None:
        whole = plan.samples(None)
        numbers = chain.from_iterable(Located(c, plan.bounds).numbers() for c in whole.chunks)
        assert [list(islice(numbers, size)) for size in whole.sizes] == batches
    return batches


class Worlds:
    """A random pass, determined by a seed, whose world changes between steps."""

    def __init__(self, name: str, seed: int) -> None:
        self.draw = draw = random.Random(seed)
        sizes = [draw.randint(0, 9) for _ in range(draw.randint(1, 20))] + [draw.randint(1, 5)]
        self.bounds = np.cumsum([0, *sizes])
        self.rows = int(self.bounds[-1])
        self.epochs = draw.choice([1, 1, 2, 3, 4])
        shuffles = draw.random() < 0.5, draw.random() < 0.5, draw.choice([0, 0, 5, 15, 1000])
        self.order = order_named(name).of_reader(draw.randint(1, 99), *shuffles)
        self.is_padded = self.epochs == 1 and draw.random() < 0.3
        self.seen = [Counter[int]() for _ in range(self.epochs)]
        self.position = Position(draw.randint(0, 3))

    @property
    def left(self) -> int:
        return self.rows * self.epochs - sum(seen.total() for seen in self.seen)

    def world(self) -> Iterator[ExactPlan]:
        """Draw a world that can resume the pass, and yield the plans of its ranks."""
        draw, size = self.draw, self.draw.randint(1, min(9, self.rows, self.left))
        batch_size, parts = draw.randint(1, 12), draw.choice([1, 1, 2, 3])
        batching = Batching(batch_size, num_epochs=self.epochs, num_parts=parts)
        for rank in range(size):
            order = self.order.share_of(World(rank, size))
            order = order.padded(batch_size) if self.is_padded else order
            plan = order.plan(batching, self.bounds, self.position, "")
            assert isinstance(plan, ExactPlan)
            yield plan

    def advance(self) -> None:
        """Draw a world, and advance the pass by a few of its batches."""
        ranks = list(self.world())
        (begin,) = {plan.resolved_start for plan in ranks}
        batches = [batches_of(plan) for plan in ranks]
        (count,) = {plan.num_batches() for plan in ranks}
        assert count is not None
        assert {len(mine) for mine in batches} == {count}
        steps = [[len(mine[n]) for mine in batches] for n in range(count)]
        if not self.is_padded:
            assert all(max(step) - min(step) <= 1 for step in steps)
            assert all(min(step) for step in steps) or ranks[0].batching.size == 1
        taken = min(self.draw.randint(1, 6), count)
        (self.position,) = {plan.position(taken) for plan in ranks}
        start, stop = map(self.samples_at, (begin, self.position))
        assert stop - start == sum(map(sum, steps[:taken]))
        for plan, mine in zip(ranks, batches, strict=True):
            self.count(plan, [row for batch in mine[:taken] for row in batch], start, stop)
        assert bool(self.position.lanes) == (0 < self.position.consumed < self.rows)

    def samples_at(self, position: Position) -> int:
        return (position.epoch - position.pass_epoch) * self.rows + position.consumed

    def count(self, plan: ExactPlan, rows: list[int], start: int, stop: int) -> None:
        """Count a rank's samples, epoch by epoch."""
        lanes, first = EpochLanes(self.rows, 0, None, (Lanes(0, plan.order.world_size),)), 0
        for epoch, seen in enumerate(self.seen):
            low, high = max(start, epoch * self.rows), min(stop, (epoch + 1) * self.rows)
            size = lanes.num_dealt(plan.order.rank, low, high) if low < high else 0
            mine = rows[first:] if self.is_padded else rows[first : first + size]
            seen.update(mine)
            first += len(mine)


def name_of(value: str | range) -> str:
    return value if isinstance(value, str) else str(len(value))


@pytest.mark.parametrize(
    ("name", "seeds"),
    [
        # `tests/law` has more chains of each order.
        *((name, range(50 if name == "exact" else 20)) for name in ORDERS_OF_LANES),
        *(pytest.param(name, range(3_000), marks=pytest.mark.long) for name in ORDERS_OF_LANES),
    ],
    ids=name_of,
)
def test_each_row_is_read_once_per_epoch_in_any_chain_of_worlds(name: str, seeds: range) -> None:
    first = int(time.time()) if len(seeds) > 100 else 0  # long runs draw new chains every time
    for seed in range(first, first + len(seeds)):
        print("seed", seed)  # printed if the test fails
        worlds = Worlds(name, seed)
        while worlds.left:
            worlds.advance()
            assert max(max(seen.values(), default=0) for seen in worlds.seen) <= 1
        assert worlds.seen == [Counter(range(worlds.rows))] * worlds.epochs


@pytest.mark.parametrize("rank", range(4))
def test_rank_in_an_unchanged_world_reads_each_epoch_in_one_run(rank: int) -> None:
    order = ExactOrder(rank=rank, world_size=4)
    plan = ExactPlan(order, np.array([0, 40, 101]), batching=Batching(8, num_epochs=3))
    chunks = list(plan.samples().chunks)
    assert len(chunks) == 3
    assert all(isinstance(chunk, range) for chunk in chunks)
    assert max(abs(chunk.start - 101 * rank // 4) for chunk in chunks) <= 1


@pytest.mark.parametrize("count", [1, 2, 3, 8, 97, 4096])
def test_consecutive_positions_are_dealt_evenly_among_ranks(count: int) -> None:
    assert gcd(stride(count), count) == 1
    lanes = EpochLanes(10 * count, 0, None, (Lanes(0, count),))
    for start, stop in ((0, 10 * count), (7, 7 + count // 2), (5, 5)):
        found = lanes.num_of_each(start, stop)
        assert found.sum() == stop - start
        assert found.max() - found.min() <= 1
        assert [lanes.num_dealt(m, start, stop) for m in (0, count - 1)] == [found[0], found[-1]]


@pytest.mark.parametrize(
    ("rows", "ranks"), [(10_000_700, 4096), (1003, 8), (99_999, 64), (5_000_001, 1000)]
)
def test_lane_borders_move_by_few_rows_between_epochs(rows: int, ranks: int) -> None:
    def borders(epoch: int) -> np.ndarray:
        lanes = EpochLanes(rows, epoch * rows, None, (Lanes(0, ranks),))
        return np.array([lanes.first_lane(rank).start for rank in range(0, ranks, 7)])

    even = np.arange(0, ranks, 7) * rows // ranks
    assert max(abs(borders(epoch) - even).max() for epoch in range(20)) <= 16


def test_ranks_read_few_runs_of_rows_after_a_world_change() -> None:
    first, change = Lanes(0, 64), Lanes(640_000, 48)
    for rank in range(48):
        epoch = EpochLanes(1_000_000, 0, None, (first, change))
        (turns,) = epoch.remaining(rank, change.consumed)
        runs = list(turns.parts())
        assert len(runs) <= 3
        assert sum(len(places) for _, places in runs) in (7500, 7501)


def test_rows_in_a_padded_last_step_fill_one_rank_after_another() -> None:
    def sizes(rank: int) -> list[int]:
        order = ExactOrder(rank=rank, world_size=3, padded_to=4)
        return list(ExactPlan(order, np.array([0, 29]), batching=Batching(4)).samples().sizes)

    assert [sizes(rank) for rank in range(3)] == [[4, 4, 4], [4, 4, 1], [4, 4, 0]]


def test_world_with_more_ranks_than_remaining_rows_raises_error() -> None:
    order = ExactOrder(rank=0, world_size=4)
    start = Position(0, 7, 0, (Lanes(0, 1),))
    plan = ExactPlan(order, np.array([0, 10]), batching=Batching(2), start=start)
    with pytest.raises(NoDataAvailableError, match="only 3 rows remain in this pass, for 4"):
        _ = plan.resolved_start


def test_last_batch_with_one_row_resumes_in_the_same_world() -> None:
    def plan(rank: int, start: Position = Position()) -> ExactPlan:  # noqa: B008  # frozen
        order = ExactOrder(rank=rank, world_size=3)
        return ExactPlan(order, np.array([0, 10]), batching=Batching(1), start=start)

    rests = [batches_of(plan(rank, plan(0).position(3))) for rank in range(3)]
    assert rests == [batches_of(plan(rank))[3:] for rank in range(3)]
    assert sorted(map(len, [rest[0] for rest in rests])) == [0, 0, 1]


def test_position_omits_lanes_from_worlds_that_read_no_samples() -> None:
    bounds = np.array([0, 30])
    place = Position(0, 8, 0, (Lanes(0, 2),))
    for size in (3, 5, 4):
        order = ExactOrder(world_size=size)
        place = ExactPlan(order, bounds, batching=Batching(2), start=place).resolved_start
    assert place.lanes == (Lanes(0, 2), Lanes(8, 4))


@pytest.mark.parametrize("halved", [[4, 4, 2, 3], [5, 5, 3, 3]], ids=str)
def test_worker_resumes_after_its_batch_if_workers_share_the_last_step(halved: list[int]) -> None:
    bounds = np.array([0, 9 * halved[0] + 1])
    batching = Batching(halved[0], num_parts=2)
    plan = ExactPlan(ExactOrder(world_size=3, seed=1), bounds, batching=batching)
    batches = batches_of(plan)
    assert list(map(len, batches)) == halved
    for part in range(2):
        place, left = plan.position_of_part(part, part + 1)
        chunks, sizes, _ = replace(plan, start=place).samples(left)
        numbers = [number for chunk in chunks for number in Located(chunk, bounds).numbers()]
        assert numbers[: sum(sizes)] == [n for batch in batches[part + 2 :: 2] for n in batch]


def test_position_after_all_samples_is_end_and_next_epoch_keeps_seed() -> None:
    assert [Position(consumed=n, end=4).is_end for n in (3, 4)] == [False, True]
    assert not Position(consumed=4).is_end
    place = Position(3, 5, 1, (Lanes(0, 2),), seed=7, end=9, row=2)
    assert place.beginning_of(4) == Position(4, seed=7)


def test_position_after_last_batch_is_end_of_pass_if_drop_last_drops_the_rest() -> None:
    batching = Batching(30, num_epochs=4, drop_last=True)
    plan = ExactPlan(ExactOrder(seed=1), np.array([0, 20]), batching=batching)
    assert plan.num_batches() == 2  # the batches end at the end of the third of four epochs
    assert plan.position(1) == replace(
        plan.resolved_start, epoch=1, consumed=10, lanes=(Lanes(0, 1),)
    )
    assert (
        plan.position(2)
        == plan.end()
        == replace(plan.resolved_start, epoch=3, consumed=20, lanes=(), end=20)
    )


@pytest.mark.parametrize(
    ("by_shard", "cut", "reason"),
    [
        (True, "as stored", "batches are row groups"),
        (True, "as returned", "may change the number of rows"),
        (False, "as returned", "may change the number of rows"),
    ],
)
def test_unequal_batches_of_rows_have_a_reason_which_errors_name(
    by_shard: bool, cut: Cut, reason: str
) -> None:
    batching = Batching(4, cut, by_shard)
    plan = RowPlan(ExactOrder(seed=1), np.array([0, 5, 10]), batching=batching)
    assert reason in plan.unequal_because
    with pytest.raises(
        StateMismatchError, match=f"{reason}.* number of samples does not determine"
    ):
        plan.reached(3)


def test_parts_of_row_groups_take_turns() -> None:
    bounds = np.array([0, 5, 10, 15])
    batching = Batching(5, "as stored", by_shard=True, num_parts=2)
    plan = RowPlan(ExactOrder(seed=1), bounds, batching=batching)
    first, second, whole = (
        [Located(chunk, bounds).numbers() for chunk in plan.samples(part).chunks]
        for part in (0, 1, None)
    )
    assert [*first, *second] == [whole[0], whole[2], whole[1]]


def test_equal_batches_of_rows_have_no_reason_to_differ_but_samples_no_position() -> None:
    batching = Batching(4, "as stored")
    plan = RowPlan(ExactOrder(seed=1), np.array([0, 5, 10]), batching=batching)
    assert not plan.unequal_because
    with pytest.raises(StateMismatchError, match="rows, so a number of samples does not determine"):
        plan.reached(3)


@pytest.mark.parametrize("field", ["rows", "settings", "sequence", "plan"])
def test_field_hides_no_method_of_orders(field: str) -> None:
    with pytest.raises(TypeError, match=rf"fields of Hiding hide \['{field}'\] of Order"):
        type("Hiding", (Order,), {"name": "hiding", "__annotations__": {field: int}})
    assert "hiding" not in order_names()
