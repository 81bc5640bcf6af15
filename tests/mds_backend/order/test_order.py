"""The exact order: shares, seeds, shards, and permutations of which any part can be worked out."""

from dataclasses import replace
from itertools import chain, product
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mdstorm_backend.errors import InvalidArgumentError, NoDataAvailableError
from mdstorm_backend.order import exact
from mdstorm_backend.order.exact import DEFAULT_SEED, ExactOrder, Permutation
from mdstorm_backend.read.block import Located

#: Permutations of all sizes are computed as large ones are.
IN_PARTS = pytest.mark.usefixtures("none_is_drawn_at_once")


def pieces(order: ExactOrder, sizes: list[int], epoch: int = 0) -> list[range]:
    bounds = np.cumsum([0, *sizes])
    return order.pieces(bounds, order.rows(sum(sizes)), epoch)


def test_permutations_differ_between_epochs_windows_and_seeds() -> None:
    bounds, found = np.array([0, 50, 100]), set()
    for seed, epoch in product((1, 2), (0, 1)):
        order = ExactOrder(seed=seed, shuffle_rows=True)
        for number, chunk in enumerate(order.chunks(bounds, range(100), epoch, range(100))):
            rows = [row - 50 * number for row in Located(chunk, bounds).numbers()]
            assert rows == order.permutation(50, epoch, number).tolist()
            found.add(tuple(rows))
    assert len(found) == 8


def test_shards_of_the_same_share_come_in_another_order_in_each_epoch() -> None:
    order = ExactOrder(seed=1, shuffle_shards=True, rank=1, world_size=2)
    orders = {tuple(pieces(order, [5] * 20, epoch)) for epoch in range(5)}
    assert len(orders) == 5
    others = {tuple(pieces(replace(order, seed=seed), [5] * 20)) for seed in range(2, 5)}
    assert len({frozenset(found) for found in orders | others}) == 1


@pytest.mark.parametrize("seed", [None, 0])
def test_without_a_seed_ranks_share_one_and_a_reader_alone_draws_its_own(seed: int | None) -> None:
    shares = [ExactOrder(seed, shuffle_rows=True, rank=r, world_size=2) for r in range(2)]
    assert {share.resolved().seed for share in shares} == {DEFAULT_SEED}
    assert replace(shares[0], seed=5).resolved().seed == 5
    alone = [ExactOrder(seed, shuffle_rows=True).resolved() for _ in range(3)]
    assert len({order.seed for order in alone}) == 3
    assert all(order.seed and order.resolved() is order for order in alone)


@pytest.mark.parametrize(("rank", "world_size"), [(-1, 2), (2, 2), (0, 0), (0, -1)])
def test_a_rank_outside_of_the_world_is_refused(rank: int, world_size: int) -> None:
    with pytest.raises(InvalidArgumentError, match=f"rank {rank} of {world_size}"):
        ExactOrder(rank=rank, world_size=world_size)


def test_fewer_rows_than_ranks_are_no_data() -> None:
    with pytest.raises(NoDataAvailableError, match=r"2 rows for 3 ranks\. Use fewer") as caught:
        ExactOrder(rank=0, world_size=3).rows(2)
    assert not isinstance(caught.value, (ValueError, RuntimeError))


@pytest.mark.parametrize("seed", [-1, 1.5, "1", True])
def test_a_seed_is_a_non_negative_integer_or_none(seed: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="seed must be an integer of at least 0 or None"):
        ExactOrder(seed=seed)


def test_integers_of_numpy_become_plain_ones() -> None:
    order = ExactOrder(seed=np.uint32(7), window=np.int64(3), world_size=np.int64(2)).resolved()
    assert (order.seed, order.window, order.world_size) == (7, 3, 2)
    assert {type(v) for v in (order.seed, order.window, order.world_size)} == {int}


def test_the_parts_of_a_rank_are_those_of_each_shard_without_empty_ones() -> None:
    order = ExactOrder(rank=1, world_size=2)
    assert order.rows(10) == range(5, 10)
    assert pieces(order, [0, 3, 4, 0, 3]) == [range(5, 7), range(7, 10)]


@pytest.fixture
def none_is_drawn_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "_FEW", 0)


@IN_PARTS
@given(size=st.integers(1, 5000), seed=st.integers(0, 9), cut=st.integers(0, 5000))
@example(size=4096, seed=1, cut=4096)
@example(size=4097, seed=1, cut=1)
def test_parts_of_a_permutation_have_every_number_once(size: int, seed: int, cut: int) -> None:
    permutation = Permutation(size, np.random.default_rng(seed))
    cut = min(cut, size)
    parts = [permutation.numbers(range(cut)), permutation.numbers(range(cut, size))]
    whole = permutation.numbers(range(size))
    assert np.concatenate(parts).tolist() == whole.tolist()
    assert sorted(whole.tolist()) == list(range(size))


@IN_PARTS
@pytest.mark.parametrize("size", [140_000, 262_144, 262_145])
def test_a_permutation_looks_as_if_it_was_drawn(size: int) -> None:
    numbers = Permutation(size, np.random.default_rng(5)).numbers(range(size))
    side = 1 << (size.bit_length() + 1) // 2
    batches = numbers[: size // 1000 * 1000].reshape(-1, 1000)
    of_row, of_column, of_shard = batches // side, batches % side, batches // 997 == 7
    for values in (batches, batches % 2, batches % 10, of_row, of_column, of_shard):
        expected = values.var() / 1000 * (1 - 1000 / size)
        assert values.mean(axis=1).var() == pytest.approx(expected, rel=0.6)
    for apart in (1, side):  # what was beside each other is no nearer afterwards
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
def test_windows_are_read_in_any_parts(
    sizes: list[int], window: int, seed: int, data: st.DataObject
) -> None:
    bounds = np.cumsum([0, *sizes])
    order = ExactOrder(seed=seed, shuffle_shards=True, window=window)
    rows = order.rows(sum(sizes))
    whole = [Located(c, bounds).numbers() for c in order.chunks(bounds, rows, 0, range(len(rows)))]
    samples = list(chain.from_iterable(whole))
    assert sorted(samples) == list(rows)
    shards = np.searchsorted(bounds, np.arange(len(rows)), side="right")
    for chunk in whole[:-1]:
        assert len(chunk) >= window  # whole shards, as many as it takes
        assert len(chunk) == np.isin(shards, shards[chunk]).sum()
    start = data.draw(st.integers(0, len(rows)))
    stop = data.draw(st.integers(start, len(rows)))
    part = order.chunks(bounds, rows, 0, range(start, stop))
    halves = [c[half] for c in part for half in (slice(len(c) // 2), slice(len(c) // 2, None))]
    found = [Located(half, bounds).numbers() for half in halves]
    assert list(chain.from_iterable(found)) == samples[start:stop]
