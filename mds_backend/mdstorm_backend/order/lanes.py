"""Deal a pass's samples out to ranks, and cut each epoch into lanes that the ranks read.

The samples in a pass are numbered across all of its epochs, and their numbers are dealt out to the
ranks in turn. So a single count, the number of consumed samples, describes how far all ranks are.
Each epoch is cut into contiguous *lanes*, one for each rank that began it, and a rank takes its
samples from its own lane, in reading order. If a pass resumes in the middle of an epoch on a
different number of ranks, the unread ends of all lanes are joined, one after another, and cut into
lanes for the new ranks.

Of W ranks, rank r takes the numbers K with ``K mod W == r·g mod W``. The stride g is coprime to W
and near 0.618 W, which spreads out the ranks that have one more sample than others. So the borders
of lanes move by only a few samples from epoch to epoch, and hosts keep reading the same shards.

`EpochLanes` determines which numbers belong to which lane, through all world changes in an epoch.
`Layout` cuts samples into lanes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from math import gcd
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]


class Lanes(NamedTuple):
    """The layout of an epoch, or of its unread samples, as a state records it.

    Attributes
    ----------
    consumed : int
        Number of samples in the epoch that the world had consumed before.
    size : int
        Number of lanes, which is the number of ranks at that time.
    padded_to : int
        Batch size if only the last step of the pass may need padding, in which case its samples
        fill one rank's batch after another. 0 if they are dealt out like all others.
    """

    consumed: int
    size: int
    padded_to: int = 0


def ceil_div(dividend: int, divisor: int) -> int:
    """Divide integers, rounding up."""
    return -(-dividend // divisor)


@lru_cache(maxsize=256)
def stride(count: int) -> int:
    """Return a number that is coprime to `count` and near 0.618 times `count`."""
    wanted = round(count * 0.618)
    near = (g for away in range(count + 1) for g in (wanted - away, wanted + away))
    return next(g for g in near if 0 < g <= count and gcd(g, count) == 1)


class Layout:
    """The samples of an epoch that are unread when lanes begin, cut into those lanes.

    Parameters
    ----------
    lanes, starts, stops : numpy.ndarray
        int64, for each range of unread samples: its lane in the epoch's first layout, and where it
        begins and ends in that lane.
    sizes : numpy.ndarray
        int64, number of samples in each new lane.
    """

    def __init__(self, lanes: Counts, starts: Counts, stops: Counts, sizes: Counts) -> None:
        self._lanes, self._starts = lanes, starts
        self._ends = np.cumsum(stops - starts)
        self.bounds = np.concatenate(([0], np.cumsum(sizes)))

    def remaining(self, lane: int, taken: int) -> Iterator[tuple[int, range]]:
        """Yield the ranges of a lane after its first `taken` samples.

        Each consists of a lane in the first layout and the places in it, in reading order.
        """
        lows = self.bounds[[lane]] + taken
        found = self._chosen(lows, self.bounds[[lane + 1]])
        for first, start, stop in zip(*(array.tolist() for array in found), strict=True):
            yield first, range(start, stop)

    def after(self, taken: Counts, sizes: Counts) -> Layout:
        """Return a layout with new lanes, without the first `taken` samples of each old lane."""
        return Layout(*self._chosen(self.bounds[:-1] + taken, self.bounds[1:]), sizes)

    def _chosen(self, lows: Counts, highs: Counts) -> tuple[Counts, Counts, Counts]:
        """Return ascending ranges of samples as lane ranges, joining adjacent ones."""
        inner = self._ends[(self._ends > lows[0]) & (self._ends < highs[-1])]
        edges = np.concatenate((lows, highs, inner))
        edges.sort(kind="stable")  # a stable sort is fast on ascending runs
        begins, ends = edges[:-1], edges[1:]
        owners = np.searchsorted(highs, begins, side="right")
        is_in = (begins >= lows[np.minimum(owners, len(lows) - 1)]) & (begins < ends)
        begins, ends = begins[is_in], ends[is_in]
        found = np.searchsorted(self._ends, begins, side="right")
        before = np.concatenate(([0], self._ends[:-1]))[found]
        lanes, starts = self._lanes[found], self._starts[found] + begins - before
        stops = starts + ends - begins
        continues = (lanes[1:] == lanes[:-1]) & (starts[1:] == stops[:-1])
        first = np.concatenate(([True], ~continues))[: len(lanes)]
        last = np.concatenate((~continues, [True]))[: len(lanes)]
        return lanes[first], starts[first], stops[last]


@dataclass(frozen=True)
class EpochLanes:
    """The lanes of an epoch, across all changes of the world within the epoch.

    Attributes
    ----------
    num_samples : int
        Number of samples in the epoch.
    first_number : int
        Number of the epoch's first sample in the pass.
    stop : int or None
        Number of samples in the pass; None if the pass never ends.
    lanes : tuple of Lanes
        The first layout, then one for each world change. The last one is current.
    """

    num_samples: int
    first_number: int
    stop: int | None
    lanes: tuple[Lanes, ...]

    @property
    def _tail(self) -> int | None:
        """Where the last step begins, if its samples fill one lane's batch after another."""
        lanes, stop = self.lanes[-1], self.stop
        if not lanes.padded_to or stop is None:
            return None
        start, step = self.first_number + lanes.consumed, lanes.size * lanes.padded_to
        return start + (stop - start) // step * step

    def num_dealt(self, lane: int, start: int, stop: int) -> int:
        """Return how many of the pass's numbers `start` to `stop` belong to a current lane."""
        if self._tail is not None:
            return int(self.num_of_each(start, stop)[lane])
        size = self.lanes[-1].size
        residue = lane * stride(size) % size
        return ceil_div(max(stop - start - (residue - start) % size, 0), size)

    def num_of_each(self, start: int, stop: int) -> Counts:
        """Return how many of the numbers `start` to `stop` belong to each current lane, int64."""
        tail, (_, size, padded_to) = self._tail, self.lanes[-1]
        regular = stop if tail is None else min(stop, tail)
        members = np.arange(size)
        residues = members * stride(size) % size
        ahead = (residues - start % size) % size
        found: Counts = -(-np.maximum(regular - start - ahead, 0) // size)
        if tail is not None and stop > tail:
            firsts = tail + members * padded_to
            found += np.maximum(np.minimum(stop, firsts + padded_to) - np.maximum(start, firsts), 0)
        return found

    def first_lane(self, lane: int) -> range:
        """Return the samples of a lane in the first layout, numbered within the epoch."""
        bounds = _layout(replace(self, lanes=self.lanes[:1])).bounds
        return range(int(bounds[lane]), int(bounds[lane + 1]))

    def remaining(self, lane: int, consumed: int) -> Iterator[tuple[int, range]]:
        """Yield what is left of a lane once `consumed` samples in the epoch have been read.

        Each range consists of a lane in the first layout and the places in it.
        """
        first = self.first_number
        taken = self.num_dealt(lane, first + self.lanes[-1].consumed, first + consumed)
        return _layout(self).remaining(lane, taken)


@lru_cache(maxsize=64)
def _layout(epoch: EpochLanes) -> Layout:
    """Return the layout for the samples that were unread when the current lanes began."""
    first, lanes = epoch.first_number, epoch.lanes[-1]
    begins = first + lanes.consumed
    sizes = epoch.num_of_each(begins, first + epoch.num_samples)
    if len(epoch.lanes) == 1:
        return Layout(np.arange(lanes.size), np.zeros(lanes.size, np.int64), sizes, sizes)
    before = replace(epoch, lanes=epoch.lanes[:-1])
    taken = before.num_of_each(first + before.lanes[-1].consumed, begins)
    return _layout(before).after(taken, sizes)
