"""Permutations of windows, of which any part can be worked out by itself."""

from itertools import chain

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mdstorm_backend.order import exact
from mdstorm_backend.order.exact import ExactOrder, Permutation
from mdstorm_backend.order.sampler import numbers_of


@pytest.fixture(autouse=True)
def none_is_drawn_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "_FEW", 0)


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
    whole = [numbers_of(chunk) for chunk in order.chunks(bounds, rows, 0, range(len(rows)))]
    samples = list(chain.from_iterable(whole))
    assert sorted(samples) == list(rows)
    shards = np.searchsorted(bounds, np.arange(len(rows)), side="right")
    for chunk in whole[:-1]:
        assert len(chunk) >= window  # whole shards, as many as it takes
        assert len(chunk) == np.isin(shards, shards[chunk]).sum()
    start = data.draw(st.integers(0, len(rows)))
    stop = data.draw(st.integers(start, len(rows)))
    part = order.chunks(bounds, rows, 0, range(start, stop))
    halves = (
        half for chunk in part for half in (chunk[: len(chunk) // 2], chunk[len(chunk) // 2 :])
    )
    assert list(chain.from_iterable(map(numbers_of, halves))) == samples[start:stop]


def test_windows_of_one_size_are_permuted_differently() -> None:
    bounds, order = np.array([0, 50, 100]), ExactOrder(seed=1, shuffle_rows=True)
    first, second = map(numbers_of, order.chunks(bounds, range(100), 0, range(100)))
    assert [number + 50 for number in first] != second
