from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from mdstorm_backend.errors import InvalidArgumentError, NoDataAvailableError
from mdstorm_backend.order.exact import DEFAULT_SEED, ExactOrder


def pieces(order: ExactOrder, sizes: list[int], epoch: int = 0) -> list[range]:
    bounds = np.cumsum([0, *sizes])
    return order.pieces(bounds, order.rows(sum(sizes)), epoch)


def test_permutations_differ_between_epochs_windows_and_seeds() -> None:
    order, other = (ExactOrder(seed=seed, shuffle_rows=True) for seed in (1, 2))
    permutations = [
        order.permutation(50, 0, 0),
        order.permutation(50, 1, 0),
        order.permutation(50, 0, 1),
        other.permutation(50, 0, 0),
    ]
    assert len({tuple(p) for p in permutations}) == 4


def test_shards_come_in_another_order_in_each_epoch() -> None:
    order = ExactOrder(seed=1, shuffle_shards=True)
    orders = {tuple(pieces(order, [5] * 10, epoch)) for epoch in range(5)}
    assert len(orders) == 5


def test_a_share_does_not_depend_on_the_seed() -> None:
    shares = {
        frozenset(pieces(ExactOrder(seed=seed, shuffle_shards=True, rank=1, world_size=3), [4] * 5))
        for seed in range(1, 5)
    }
    assert len(shares) == 1


@pytest.mark.parametrize("seed", [None, 0])
def test_without_a_seed_one_is_drawn_and_kept(seed: int | None) -> None:
    order = ExactOrder(seed=seed, shuffle_rows=True)
    first, second = order.resolved(), order.resolved()
    assert first.seed
    assert first.seed != second.seed
    assert first.resolved() is first


def test_a_given_seed_is_kept() -> None:
    assert ExactOrder(seed=7).resolved().seed == 7
    assert ExactOrder(seed=np.int64(7), shuffle_rows=True).resolved().seed == 7  # type: ignore[arg-type]


@pytest.mark.parametrize(("rank", "world_size"), [(-1, 2), (2, 2), (0, 0), (0, -1)])
def test_a_rank_outside_of_the_world_is_refused(rank: int, world_size: int) -> None:
    with pytest.raises(InvalidArgumentError, match=f"rank {rank} of {world_size}"):
        ExactOrder(rank=rank, world_size=world_size)


def test_fewer_rows_than_ranks_are_no_data() -> None:
    with pytest.raises(NoDataAvailableError, match="there are 2 rows for 3 ranks") as caught:
        ExactOrder(rank=0, world_size=3).rows(2)
    assert "fewer ranks" in str(caught.value)
    assert not isinstance(caught.value, (ValueError, RuntimeError))


@pytest.mark.parametrize("seed", [-1, 1.5, "1", True])
def test_a_seed_is_a_non_negative_integer_or_none(seed: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="seed must be an integer of at least 0 or None"):
        ExactOrder(seed=seed)


def test_integers_of_numpy_become_plain_ones() -> None:
    order = ExactOrder(seed=np.uint32(7), window=np.int64(3), world_size=np.int64(2))
    assert {type(v) for v in (order.seed, order.window, order.world_size)} == {int}


@pytest.mark.parametrize("seed", [None, 0])
def test_shares_without_a_seed_are_permuted_by_one(seed: int | None) -> None:
    shares = [ExactOrder(seed, shuffle_rows=True, rank=r, world_size=2) for r in range(2)]
    assert {share.resolved().seed for share in shares} == {DEFAULT_SEED}
    whole = ExactOrder(seed, shuffle_rows=True)
    assert len({whole.resolved().seed for _ in range(3)}) == 3
    assert replace(shares[0], seed=5).resolved().seed == 5


def test_the_parts_of_a_rank_are_those_of_each_shard_without_empty_ones() -> None:
    order = ExactOrder(rank=1, world_size=2)
    assert order.rows(10) == range(5, 10)
    assert pieces(order, [0, 3, 4, 0, 3]) == [range(5, 7), range(7, 10)]
