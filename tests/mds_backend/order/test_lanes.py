"""Lanes: chains of worlds, counted by row, by batch, and by what each rank reads in one run."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from math import gcd

import numpy as np
import pytest

from mdstorm_backend import ExactOrder
from mdstorm_backend.errors import NoDataAvailableError
from mdstorm_backend.order import ExactSampler, Place
from mdstorm_backend.order.lanes import Deal, EpochLanes, Lanes, stride
from mdstorm_backend.read.block import Located


def batches_of(sampler: ExactSampler, begun: Place) -> list[list[int]]:
    """The numbers of each batch, those of all parts in their turn."""
    parts = []
    for part in range(sampler.num_parts):
        chunks, sizes = sampler.part(begun, part)
        numbers = chain.from_iterable(Located(chunk, sampler.bounds).numbers() for chunk in chunks)
        parts.append([[next(numbers) for _ in range(size)] for size in sizes])
    count = sum(map(len, parts))
    return [parts[n % len(parts)][n // len(parts)] for n in range(count)]


class Chain:
    """A pass in worlds that change, drawn by a seed."""

    def __init__(self, seed: int) -> None:
        self.draw = draw = random.Random(seed)
        sizes = [draw.randint(0, 9) for _ in range(draw.randint(1, 20))] + [draw.randint(1, 5)]
        self.bounds = np.cumsum([0, *sizes])
        self.rows = int(self.bounds[-1])
        self.epochs = draw.choice([1, 1, 2, 3, 4])
        shuffles = draw.random() < 0.5, draw.random() < 0.5, draw.choice([0, 0, 5, 15, 1000])
        self.order = ExactOrder(draw.randint(1, 99), *shuffles)
        self.is_padded = self.epochs == 1 and draw.random() < 0.3
        self.seen = [Counter[int]() for _ in range(self.epochs)]
        self.place = Place(draw.randint(0, 3))

    @property
    def left(self) -> int:
        return self.rows * self.epochs - sum(seen.total() for seen in self.seen)

    def world(self) -> Iterator[ExactSampler]:
        """Draw a world that can go on, and how its ranks make batches."""
        draw, size = self.draw, self.draw.randint(1, min(9, self.rows, self.left))
        batch_size, parts = draw.randint(1, 12), draw.choice([1, 1, 2, 3])
        padded_to = batch_size * self.is_padded
        for rank in range(size):
            order = replace(self.order, rank=rank, world_size=size, padded_to=padded_to)
            yield ExactSampler(order, self.bounds, batch_size, self.epochs, False, parts)

    def go_on(self) -> None:
        """Let a world have some batches."""
        ranks = list(self.world())
        (begun,) = {sampler.begun(self.place) for sampler in ranks}
        batches = [batches_of(sampler, begun) for sampler in ranks]
        (count,) = {sampler.num_batches(begun) for sampler in ranks}
        assert {len(mine) for mine in batches} == {count}
        steps = [[len(mine[n]) for mine in batches] for n in range(count)]
        if not self.is_padded:
            assert all(max(step) - min(step) <= 1 for step in steps)
            assert all(min(step) for step in steps) or ranks[0].batch_size == 1
        taken = min(self.draw.randint(1, 6), count)
        start = position = ranks[0].position(begun)
        for _ in range(taken):
            position = ranks[0].advanced(position)
        assert position - start == sum(map(sum, steps[:taken]))
        for sampler, mine in zip(ranks, batches, strict=True):
            self.count(sampler, [row for batch in mine[:taken] for row in batch], start, position)
        self.place = ranks[0].place(begun, position)
        assert bool(self.place.lanes) == (0 < self.place.consumed < self.rows)

    def count(self, sampler: ExactSampler, rows: list[int], start: int, stop: int) -> None:
        """Count what a rank has had, epoch by epoch."""
        deal, first = Deal(sampler.order.world_size), 0
        for epoch, seen in enumerate(self.seen):
            low, high = max(start, epoch * self.rows), min(stop, (epoch + 1) * self.rows)
            size = deal.num_positions(sampler.order.rank, low, high) if low < high else 0
            mine = rows[first:] if self.is_padded else rows[first : first + size]
            seen.update(mine)
            first += len(mine)


def check(seed: int) -> None:
    chain = Chain(seed)
    while chain.left:
        chain.go_on()
        assert max(max(seen.values(), default=0) for seen in chain.seen) <= 1
    assert chain.seen == [Counter(range(chain.rows))] * chain.epochs


def test_each_row_comes_once_an_epoch_in_any_chain_of_worlds() -> None:
    for seed in range(300):
        check(seed)


@pytest.mark.long
def test_each_row_comes_once_an_epoch_in_many_chains_drawn_anew() -> None:
    first = int(time.time())
    for seed in range(first, first + 10_000):
        try:
            check(seed)
        except Exception as error:
            raise AssertionError(f"chain {seed}") from error


@pytest.mark.parametrize("rank", range(4))
def test_while_the_world_stays_a_rank_reads_each_epoch_in_one_run(rank: int) -> None:
    order = ExactOrder(rank=rank, world_size=4)
    sampler = ExactSampler(order, np.array([0, 40, 101]), 8, 3)
    chunks = list(sampler.part(Place())[0])
    assert len(chunks) == 3
    assert all(isinstance(chunk, range) for chunk in chunks)
    assert max(abs(chunk.start - 101 * rank // 4) for chunk in chunks) <= 1


@pytest.mark.parametrize("count", [1, 2, 3, 8, 97, 4096])
def test_positions_are_dealt_to_ranks_that_are_no_neighbours(count: int) -> None:
    assert gcd(stride(count), count) == 1
    deal = Deal(count)
    for start, stop in ((0, 10 * count), (7, 7 + count // 2), (5, 5)):
        found = deal.num_of_each(start, stop)
        assert found.sum() == stop - start
        assert found.max() - found.min() <= 1
        assert [deal.num_positions(m, start, stop) for m in (0, count - 1)] == [found[0], found[-1]]


@pytest.mark.parametrize(
    ("rows", "ranks"), [(10_000_700, 4096), (1003, 8), (99_999, 64), (5_000_001, 1000)]
)
def test_borders_of_lanes_move_by_a_few_rows_only(rows: int, ranks: int) -> None:
    def borders(epoch: int) -> np.ndarray:
        lanes = EpochLanes(rows, epoch * rows, None, (Lanes(0, ranks),))
        return np.array([lanes.first_lane(rank).start for rank in range(0, ranks, 7)])

    even = np.arange(0, ranks, 7) * rows // ranks
    assert max(abs(borders(epoch) - even).max() for epoch in range(20)) <= 16


def test_after_a_change_of_the_world_ranks_read_few_runs() -> None:
    first, change = Lanes(0, 64), Lanes(640_000, 48)
    for rank in range(48):
        epoch = EpochLanes(1_000_000, 0, None, (first, change))
        runs = list(epoch.rest(rank, change.consumed))
        assert len(runs) <= 3
        assert sum(stop - start for _, start, stop in runs) in (7500, 7501)


def test_many_changes_leave_each_of_thousands_its_share() -> None:
    lanes = [Lanes(0, 4096)]
    for change in range(100):
        lanes.append(Lanes(lanes[-1].consumed + 7 * 4096 + change, 4096 - change % 7))
    ranks = lanes[-1].size
    epoch = EpochLanes(10_000_700, 0, None, tuple(lanes))
    rests = [list(epoch.rest(rank, lanes[-1].consumed)) for rank in range(0, ranks, 409)]
    left = 10_000_700 - lanes[-1].consumed
    assert {sum(stop - start for _, start, stop in rest) - left // ranks for rest in rests} <= {
        0,
        1,
    }


def test_positions_of_the_last_step_fill_one_rank_after_the_other_where_it_is_padded() -> None:
    def sizes(rank: int) -> list[int]:
        order = ExactOrder(rank=rank, world_size=3, padded_to=4)
        sampler = ExactSampler(order, np.array([0, 29]), 4)
        return list(sampler.part(sampler.begun(Place()))[1])

    assert [sizes(rank) for rank in range(3)] == [[4, 4, 4], [4, 4, 1], [4, 4, 0]]


def test_a_world_with_more_ranks_than_rows_left_cannot_go_on() -> None:
    order = ExactOrder(rank=0, world_size=4)
    sampler = ExactSampler(order, np.array([0, 10]), 2)
    with pytest.raises(
        NoDataAvailableError, match="only 3 rows are left of this pass, for 4 ranks"
    ):
        sampler.begun(Place(0, 7, 0, (Lanes(0, 1),)))


def test_in_batches_of_one_row_the_last_one_is_gone_on_to_in_the_same_world() -> None:
    def sampler(rank: int) -> ExactSampler:
        return ExactSampler(ExactOrder(rank=rank, world_size=3), np.array([0, 10]), 1)

    begun = sampler(0).begun(Place())
    stopped = sampler(0).place(begun, 9)
    rests = [batches_of(one, one.begun(stopped)) for one in map(sampler, range(3))]
    assert rests == [batches_of(one, begun)[3:] for one in map(sampler, range(3))]
    assert sorted(map(len, [rest[0] for rest in rests])) == [0, 0, 1]


def test_of_worlds_that_read_nothing_a_place_says_nothing() -> None:
    bounds = np.array([0, 30])
    place = Place(0, 8, 0, (Lanes(0, 2),))
    for size in (3, 5, 4):
        place = ExactSampler(ExactOrder(world_size=size), bounds, 2).begun(place)
    assert place.lanes == (Lanes(0, 2), Lanes(8, 4))


@pytest.mark.parametrize("halved", [[4, 4, 2, 3], [5, 5, 3, 3]], ids=str)
def test_a_part_goes_on_after_its_batch_where_the_last_one_is_halved(halved: list[int]) -> None:
    bounds = np.array([0, 9 * halved[0] + 1])
    sampler = ExactSampler(ExactOrder(world_size=3), bounds, halved[0], num_parts=2)
    begun = sampler.begun(Place())
    batches = batches_of(sampler, begun)
    assert list(map(len, batches)) == halved
    for part in range(2):
        place, skipped, left = sampler.after_part(begun, 0, part, 4)
        chunks, sizes = sampler.part(place, left, skipped)
        numbers = [number for chunk in chunks for number in Located(chunk, bounds).numbers()]
        assert numbers[: sum(sizes)] == [n for batch in batches[part + 2 :: 2] for n in batch]


def test_a_beginning_keeps_the_seed_of_a_place_and_nothing_of_its_epoch() -> None:
    place = Place(3, 5, 1, (Lanes(0, 2),), seed=7, end=9, row=2)
    assert place.beginning_of(4) == Place(4, seed=7)


def test_a_place_is_an_end_where_all_is_consumed() -> None:
    assert [Place(consumed=n, end=4).is_end for n in (3, 4)] == [False, True]
    assert not Place(consumed=4).is_end
