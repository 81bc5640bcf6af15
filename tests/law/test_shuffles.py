"""How random the shuffles of the exact order are, measured on plans against chance.

A measure is the ratio of what is counted to what independent draws give on average, so 1 is chance.
Seeds are fixed, and figures are means over epochs and seeds.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from tests.kit.small_datasets import write_numbers

from mdstorm_backend import StreamingDataLoader, StreamingDataset
from mdstorm_backend.order import Batching, ExactOrder, Position
from mdstorm_backend.order.chunk import numbers_of

ROWS, SHARDS, BATCH = 8_000, 40, 32
#: What a loader with a queue as long as the data has, one with `shuffle_rows`, and so on.
SETTINGS: dict[str, dict[str, Any]] = {
    "whole epoch": {"shuffle_shards": True, "window": ROWS},
    "whole epoch, shards in order": {"window": ROWS},
    "rows": {"shuffle_shards": True, "shuffle_rows": True},
    "window": {"shuffle_shards": True, "window": 400},
}
#: How the rows of a rank are cut into batches: by loaders, functions, and readers of row groups.
CUTS: dict[str, Batching] = {
    "samples": Batching(BATCH),
    "rows of a function": Batching(BATCH, "as stored"),
    "row groups": Batching(ROWS, "as stored", by_shard=True),
}

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Epoch:
    """The step and the rank in which each row of the data is read."""

    steps: Numbers
    ranks: Numbers


def epoch_of(lanes: list[Numbers]) -> Epoch:
    steps, ranks = np.empty((2, ROWS), np.int64)
    for rank, lane in enumerate(lanes):
        steps[lane], ranks[lane] = np.arange(len(lane)) // BATCH, rank
    return Epoch(steps, ranks)


def read(
    order: ExactOrder, ranks: int, batching: Batching, start: Position, bounds: Numbers
) -> list[Numbers]:
    """Return the rows that each rank reads up to the end of an epoch."""
    found = []
    for rank in range(ranks):
        share = replace(order, rank=rank, world_size=ranks)
        chunks = share.plan(batching, bounds, start, "").samples(None).chunks
        found.append(np.concatenate([numbers_of(chunk) for chunk in chunks]))
    return found


def epochs_of(
    setting: dict[str, Any], ranks: int, count: int, *, seed: int = 7, cut: str = "samples"
) -> Iterator[Epoch]:
    bounds = np.linspace(0, ROWS, SHARDS + 1, dtype=np.int64)
    order = ExactOrder(seed, follows_world=False, **setting)
    for epoch in range(count):
        yield epoch_of(read(order, ranks, CUTS[cut], Position(epoch), bounds))


def pairs(*labels: Numbers) -> float:
    """Return how many ordered pairs of rows have equal labels."""
    codes = np.zeros(ROWS, np.int64)
    for label in labels:
        codes = codes * (label.max() + 1) + label
    counts = np.bincount(codes).astype(np.float64)
    return float((counts * (counts - 1)).sum())


def met_again(one: Epoch, other: Epoch) -> float:
    """Return how often rows of two ranks that meet in a step of `one` meet in `other`."""
    met = pairs(one.steps) - pairs(one.steps, one.ranks)
    again = pairs(one.steps, other.steps) - pairs(one.steps, one.ranks, other.steps)
    return again / met / (pairs(other.steps) / (ROWS * (ROWS - 1.0)))


def positions(lane: list[int]) -> list[int]:
    """Return the positions of a lane's rows in the lane."""
    return [row - min(lane) for row in lane]


class Same:
    """A transform whose rows are counted when it has returned them."""

    columns = ("number",)

    def __call__(self, batch: Any) -> Any:
        return batch


@pytest.mark.parametrize("shuffle", [{"shuffle_shards": True}, {"shuffle_rows": True}])
@pytest.mark.parametrize("transform", [None, Same()])
def test_ranks_read_equal_layouts_in_different_orders(
    transform: Any, shuffle: dict[str, Any], tmp_path: Path
) -> None:
    url = write_numbers(tmp_path / "data", 120, tasks=20).url
    lanes = []
    for rank in range(2):
        order = ExactOrder(3, rank=rank, world_size=2, **shuffle)
        dataset = StreamingDataset(local=url, order=order, transform=transform)
        batches = StreamingDataLoader(dataset, batch_size=10)
        lanes.append([int(row) for batch in batches for row in batch["number"]])
    assert sorted(lanes[0]) + sorted(lanes[1]) == list(range(120))
    assert positions(lanes[0]) != positions(lanes[1])


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("ranks", [2, 8])
@pytest.mark.parametrize("name", SETTINGS)
def test_rows_of_two_ranks_meet_again_as_often_as_by_chance(
    name: str, ranks: int, cut: str
) -> None:
    # Few windows of equal sizes meet: figures of a seed vary, their mean does not.
    found = [
        met_again(*each)
        for seed in range(1, 7)
        for each in pairwise(epochs_of(SETTINGS[name], ranks, 6, seed=seed, cut=cut))
    ]
    assert 0.9 < np.mean(found) < 1.1
