"""`Spanner`: the shard and the row of a sample."""

from __future__ import annotations

import numpy as np
import pytest

from mdstorm_backend.streaming.base.spanner import Spanner


def test_samples_are_found_in_their_shards() -> None:
    spanner = Spanner(np.array([3, 0, 1, 2]), 2)
    found = [spanner[number] for number in range(6)]
    assert found == [(0, 0), (0, 1), (0, 2), (2, 0), (3, 0), (3, 1)]
    assert (spanner.num_samples, spanner.shard_bounds.tolist()) == (6, [0, 3, 3, 4, 6])


@pytest.mark.parametrize("number", [-1, 6])
def test_what_is_no_sample_is_an_index_error(number: int) -> None:
    with pytest.raises(IndexError, match=f"Invalid sample index {number}: there are 6 samples"):
        Spanner(np.array([3, 3]))[number]
