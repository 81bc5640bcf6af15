"""`Draws`: which rows an epoch draws, if rows are drawn by weights.

The draws of an epoch are numbered like the samples of a dataset, shard by shard. Draws of a shard
are made in *visits*, each with at most about as many draws as the shard has rows. To lanes,
windows and states, a visit is what a shard is to the exact order.

Weights are spread evenly: lay the rows end to end, each as long as its weight, and draw at equal
distances. So a row that is expected e times is drawn ⌊e⌋ or ⌈e⌉ times. Shards, and the rows of
each shard, are laid out in a random order for each epoch. Otherwise, a distance of two rows would
draw only one of two classes that alternate. Lengths of shards are exact integers, and the rows of
a shard are drawn when a window needs them, so no array here is as long as an epoch.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from mdstorm_backend.base import cached_property
from mdstorm_backend.order.chunk import (
    Chunk,
    Numbers,
    RowsOnDemand,
    ShardRows,
    ShardWindow,
    short_type,
)
from mdstorm_backend.order.weighting import RowWeights

#: Draws begin at one of this many places in the first distance, none of which is at its end, where
#: rounding could add a draw to a row or take one.
_BEGINS = 1 << 20
#: Most visits in an epoch, apart from the first one of each shard.
_MOST_VISITS = 1 << 20

#: What seeds are for, beside the purposes in `ExactOrder`. They know no lane, as all lanes of an
#: epoch are parts of the same draws.
_DRAWN, _MIXED = 2, 3


@dataclass(frozen=True, eq=False)
class Draws:
    """The draws of any epoch.

    Attributes
    ----------
    weights : RowWeights or None
        The weights of the rows; None if all are equal.
    bounds : numpy.ndarray
        int64, number of each shard's first row, then the number of rows.
    size : int
        Number of draws in an epoch; 0 if there are no rows.
    is_mixed : bool
        Whether visits are mixed, so that each lane has rows from everywhere. All epochs have the
        same mixture, so ranks keep reading the same shards. Otherwise, each shard has one visit, in
        stored order.
    fingerprint : str
        Fingerprint of the dataset.
    """

    weights: RowWeights | None
    bounds: Numbers
    size: int
    is_mixed: bool
    fingerprint: str

    @property
    def identity(self) -> str:
        """Identifies the weights; empty if they are equal."""
        return "" if self.weights is None else self.weights.hash

    def weights_of(self, shard: int) -> npt.NDArray[np.integer[Any]]:
        """Return the weights of a shard's rows."""
        first, stop = self.bounds[shard : shard + 2]
        if self.weights is None:
            return np.ones(stop - first, np.uint32)
        return self.weights.values[first:stop]

    @cached_property
    def lengths(self) -> npt.NDArray[Any]:
        """The sum of the weights in each shard, as Python's integers."""
        if self.weights is None:
            return np.diff(self.bounds).astype(object)
        values = self.weights.values
        sums = [values[first:stop].sum(dtype=np.int64) for first, stop in pairwise(self.bounds)]
        return np.array(sums, np.int64).astype(object)

    @cached_property
    def total(self) -> int:
        """The sum of all weights."""
        return int(self.lengths.sum())

    @cached_property
    def visits(self) -> Numbers:
        """Number of visits of each shard, at least one, the same in all epochs."""
        if not self.size or not self.is_mixed:
            return np.ones(len(self.bounds) - 1, np.int64)
        rows = np.maximum(np.diff(self.bounds), max(self.size // _MOST_VISITS, 1)).astype(object)
        found: Numbers = -(-self.lengths * self.size // (self.total * rows))
        return np.maximum(found.astype(np.int64), 1)

    def of_epoch(self, seed: int, epoch: int) -> EpochDraws:
        """Return the draws of an epoch."""
        shards = np.repeat(np.arange(len(self.visits)), self.visits)
        turns = np.arange(len(shards)) - (np.cumsum(self.visits) - self.visits)[shards]
        if self.is_mixed:
            order = np.random.default_rng((seed, 0, _MIXED)).permutation(len(shards))
            shards, turns = shards[order], turns[order]
        return EpochDraws(self, seed, epoch, shards, turns)


@dataclass(frozen=True, eq=False)
class EpochDraws:
    """The draws of one epoch.

    Attributes
    ----------
    draws : Draws
        What is drawn.
    seed, epoch : int
        The seed of all epochs, and the epoch.
    shards, turns : numpy.ndarray
        int64, for each visit, the shard and how many of its visits come before.
    """

    draws: Draws
    seed: int
    epoch: int
    shards: Numbers
    turns: Numbers

    @cached_property
    def _shares(self) -> tuple[Numbers, npt.NDArray[np.float64]]:
        """The number of draws of each shard, and the part of a distance that precedes its first."""
        size, total, lengths = self.draws.size, self.draws.total, self.draws.lengths
        if not size:
            return np.zeros(len(lengths), np.int64), np.zeros(len(lengths))
        generator = np.random.default_rng((self.seed, self.epoch, _DRAWN, 0))
        begin = total * (2 * int(generator.integers(_BEGINS)) + 1) // (2 * _BEGINS)
        order = generator.permutation(len(lengths))
        places = np.concatenate(([begin], np.cumsum(lengths[order]) * size + begin))
        counts, before = np.empty(len(lengths), np.int64), np.empty(len(lengths))
        counts[order] = np.diff(places // total)
        before[order] = (places[:-1] % total).astype(np.float64) / total
        return counts, before

    @cached_property
    def bounds(self) -> Numbers:
        """The number of each visit's first draw, then the number of draws, int64."""
        counts, visits = self._shares[0][self.shards], self.draws.visits[self.shards]
        return np.concatenate(([0], np.cumsum((counts - self.turns - 1) // visits + 1)))

    def rows_of(self, visit: int) -> npt.NDArray[np.uint32]:
        """Return the rows of a visit, as numbers in its shard, ascending."""
        shard, turn = int(self.shards[visit]), int(self.turns[visit])
        counts, before = self._shares
        count, draws = int(counts[shard]), self.draws
        if not count:
            return np.empty(0, np.uint32)
        weights = draws.weights_of(shard)
        generator = np.random.default_rng((self.seed, self.epoch, _DRAWN, shard + 1))
        order = generator.permutation(len(weights))
        ends = np.cumsum(weights[order], dtype=np.int64)
        places = (ends * (draws.size / draws.total) + before[shard]).astype(np.int64)
        places = np.minimum(places, count)
        places[ends == ends[-1]] = count
        times = np.empty(len(weights), np.int64)
        times[order] = np.diff(places, prepend=0)
        wanted = np.arange(turn, count, int(draws.visits[shard]))
        return np.searchsorted(np.cumsum(times), wanted, side="right").astype(np.uint32)

    def drawn(self, chunk: Chunk) -> Iterator[Chunk]:
        """Yield the rows of some draws: those of a window, or of one visit after another."""
        if isinstance(chunk, RowsOnDemand):
            assert isinstance(chunk.window, ShardWindow)
            yield RowsOnDemand(DrawnWindow(self, chunk.window), chunk.part)
            return
        assert isinstance(chunk, range)
        start = chunk.start
        while start < chunk.stop:
            visit = int(np.searchsorted(self.bounds, start, side="right")) - 1
            first, stop = self.bounds[visit], min(int(self.bounds[visit + 1]), chunk.stop)
            rows = self.rows_of(visit)[start - first : stop - first]
            yield rows + self.draws.bounds[self.shards[visit]]
            start = stop


@dataclass(frozen=True, eq=False)
class DrawnWindow:
    """The rows of a window of draws.

    Attributes
    ----------
    draws : EpochDraws
        The draws of the epoch.
    window : ShardWindow
        A window of draws, in which visits are what shards are to the exact order.
    """

    draws: EpochDraws
    window: ShardWindow

    def __len__(self) -> int:
        return len(self.window)

    @property
    def shards(self) -> Numbers:
        """Numbers of the shards."""
        return self._shards[0]

    def rows(self, part: range) -> ShardRows:
        """Return the rows at the given positions in the permuted window."""
        found = self.window.rows(part)
        shards, owners = self._shards
        rows = self._rows[self._firsts[found.owners] + found.rows].astype(np.int64)
        return ShardRows(shards, self.draws.draws.bounds[shards], owners[found.owners], rows)

    def places(self, samples: Numbers) -> tuple[Numbers, Numbers]:
        """Return each time that one of `samples` is in the window, and its positions in it."""
        shards, owners = self._shards
        visits = np.repeat(np.arange(len(owners)), self._sizes)
        numbers = self.draws.draws.bounds[shards][owners[visits]] + self._rows
        at = np.flatnonzero(np.isin(numbers, samples))
        draws = self.window.firsts[visits[at]] + at - self._firsts[visits[at]]
        order = np.argsort(draws)
        at, draws = at[order], draws[order]
        found, places = self.window.places(draws)
        return numbers[at][np.searchsorted(draws, found)], places

    @cached_property
    def _shards(self) -> tuple[Numbers, npt.NDArray[np.integer[Any]]]:
        """The shards, each once, and for each visit, the position of its shard among them."""
        shards, owners = np.unique(self.draws.shards[self.window.shards], return_inverse=True)
        return shards, owners.astype(short_type(len(shards)))

    @cached_property
    def _rows(self) -> npt.NDArray[np.uint32]:
        """The rows of all visits, one visit after another."""
        return np.concatenate([self.draws.rows_of(visit) for visit in self.window.shards.tolist()])

    @cached_property
    def _sizes(self) -> Numbers:
        return np.diff(self.draws.bounds)[self.window.shards]

    @cached_property
    def _firsts(self) -> Numbers:
        """Where the rows of each visit begin in `_rows`."""
        return np.cumsum(self._sizes) - self._sizes
