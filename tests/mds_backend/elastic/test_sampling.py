from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.mds_backend.elastic.examples import patient

from mdstorm_backend.elastic import sampling
from mdstorm_backend.elastic.sampling import ShardSample, resample, samples_per_shard
from mdstorm_backend.errors import InvalidArgumentError

shards = st.lists(st.integers(0, 30), min_size=1, max_size=8).filter(any)


@patient
@given(shards, st.floats(0, 3), st.integers(1, 40), st.integers(0, 99), st.booleans())
def test_as_many_samples_are_taken_as_chosen_and_evenly(
    sizes: list[int], times: float, granularity: int, seed: int, use_epoch: bool
) -> None:
    choose = int(times * sum(sizes))
    counts = samples_per_shard(sizes, choose, granularity, seed, 1, use_epoch)
    assert counts.sum() == choose
    copies = choose // sum(sizes)
    assert (counts >= copies * np.array(sizes)).all()
    if 0 not in sizes:
        assert (counts <= (copies + 1) * np.array(sizes)).all()


def test_the_epoch_counts_only_on_request() -> None:
    def counts(epoch: int, use_epoch: bool) -> list[int]:
        return samples_per_shard([50] * 9, 200, 1, 3, epoch, use_epoch).tolist()

    assert counts(0, False) == counts(1, False) == counts(0, True)
    assert counts(0, True) != counts(1, True)


def test_a_shard_before_an_empty_one_gives_whole_picks_as_mosaics_does() -> None:
    sizes = [2, 1, 0, 1, 2, 1, 1, 1, 1, 2, 1]
    counts = samples_per_shard(sizes, 24, 2, 319858539505, 1, False)
    assert counts.tolist() == [2, 3, 0, 2, 3, 2, 2, 2, 2, 4, 2]


def test_samples_are_taken_in_granules() -> None:
    counts = samples_per_shard([20, 20, 20, 20], 40, 10, 0, 0, False)
    assert set(counts.tolist()) <= {0, 10, 20}


@patient
@given(shards, st.integers(1, 30))
def test_picks_are_counted_piece_by_piece_as_all_at_once(sizes: list[int], chunk: int) -> None:
    choose = sum(sizes) * 2 // 3
    expected = samples_per_shard(sizes, choose, 2, 5, 0, False).tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sampling, "CHUNK", chunk)
        assert samples_per_shard(sizes, choose, 2, 5, 0, False).tolist() == expected


@patient
@given(st.lists(st.tuples(st.integers(0, 20), st.floats(0, 3)), min_size=1, max_size=8))
def test_resampled_ids_are_of_their_shards(drawn: list[tuple[int, float]]) -> None:
    sizes = np.array([size for size, _ in drawn])
    counts = np.array([int(size * times) for size, times in drawn])
    found = resample([ShardSample(100, sizes, counts)], 0)
    assert found.units.sum() == found.num_samples == counts.sum()
    assert (found.units > 0).all()
    big = np.arange(found.num_samples)
    ids = big + found.first_id if found.ids is None else found.ids
    first, offset = 100, 0
    for size, count in zip(sizes.tolist(), counts.tolist(), strict=True):
        of_shard = Counter(ids[offset : offset + count].tolist())
        assert set(of_shard) <= set(range(first, first + size))
        assert not of_shard or max(of_shard.values()) - min(of_shard.values()) <= 1
        first, offset = first + size, offset + count


def test_whole_shards_need_no_table() -> None:
    sizes = np.array([3, 0, 4])
    found = resample([ShardSample(0, sizes, sizes), ShardSample(7, sizes, sizes)], 0)
    assert found.ids is None
    assert found.units.tolist() == [3, 4, 3, 4]


def test_nothing_can_be_taken_of_empty_shards() -> None:
    assert samples_per_shard([0, 0], 0, 1, 0, 0, False).tolist() == [0, 0]
    with pytest.raises(InvalidArgumentError, match="cannot take 3 samples"):
        samples_per_shard([0, 0], 3, 1, 0, 0, False)


def test_granules_have_at_least_one_sample() -> None:
    with pytest.raises(InvalidArgumentError, match="sampling_granularity must be at least 1"):
        samples_per_shard([3], 2, 0, 0, 0, False)
