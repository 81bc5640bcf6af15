"""`Draws` at the edges of its arithmetic; `tests/law/test_weights.py` has the rest."""

import numpy as np
import numpy.typing as npt

from mdstorm_backend.order.chunk import numbers_of
from mdstorm_backend.order.draws import Draws
from mdstorm_backend.order.weighting import RowWeights


def drawn(values: npt.NDArray[np.uint32], shard: int, size: int, epoch: int) -> list[int]:
    """Return the rows that an epoch draws."""
    bounds = np.arange(0, len(values) + 1, shard)
    draws = Draws(RowWeights.of(values), bounds, size, True, "").of_epoch(3, epoch)
    rows = [chunk for chunk in draws.drawn(range(size)) if len(chunk)]
    return np.concatenate(list(map(numbers_of, rows))).tolist()


def test_shards_that_alternate_between_classes_are_drawn_alike() -> None:
    odd = [np.mean(np.array(drawn(np.ones(400, np.uint32), 1, 200, e)) % 2) for e in range(40)]
    assert 0 < min(odd) < 0.5 < max(odd) < 1
    assert abs(np.mean(odd) - 0.5) < 0.03


def test_row_with_weight_0_is_never_drawn() -> None:
    values = np.zeros(1000, np.uint32)
    values[::10] = 2**32 - 1 - np.arange(100)
    for epoch in range(300):
        assert not any(row % 10 for row in drawn(values, 50, 33, epoch))
