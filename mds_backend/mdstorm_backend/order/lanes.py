"""Deal a pass's samples out to ranks, and cut each epoch into lanes that the ranks read.

The samples in a pass are numbered across all of its epochs, and their numbers are dealt out to the
ranks in turn. So a single count, the number of consumed samples, describes how far all ranks are.
Each epoch is cut into contiguous *lanes*, one for each rank that began it, and a rank takes its
samples from its own lane, in reading order. If a pass resumes in the middle of an epoch on a
different number of ranks, the unread ends of all lanes, one after another, are cut into lanes for
the new ranks. The parts of older lanes that a new lane has are read in turns.

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

from mdstorm_backend.order.turns import AT_ONCE, Counts, Turns, progress


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
    return next(g for g in near if gcd(g, count) == 1)


class Layout:
    """The samples of an epoch that are unread when lanes begin, cut into those lanes.

    A lane consists of parts of older lanes, which are read in groups: see
    `mdstorm_backend.order.turns`.

    Parameters
    ----------
    lanes, starts, stops : numpy.ndarray
        int64, for each range of unread samples: its lane in the epoch's first layout, and where it
        begins and ends in that lane.
    sizes : numpy.ndarray
        int64, number of samples in each new lane.
    at_once : int
        See `EpochLanes`.
    """

    def __init__(
        self, lanes: Counts, starts: Counts, stops: Counts, sizes: Counts, at_once: int
    ) -> None:
        self.bounds, self._at_once = np.concatenate(([0], np.cumsum(sizes))), at_once
        ends = np.cumsum(stops - starts)
        edges = _merged(self.bounds, ends)
        found = np.searchsorted(ends, edges[:-1], side="right")
        #: The first part of each lane, or of each group, then the number of parts.
        self._firsts = np.searchsorted(edges, self.bounds)
        places, self._groups = _grouped(self._firsts, at_once)
        parts = np.empty((3, len(found)), np.int64)
        parts[:, places] = lanes[found], stops[found] - ends[found] + edges[:-1], np.diff(edges)
        self._lanes, self._starts, sizes = parts
        #: Number of samples before each part, then the number of samples.
        self._edges = np.concatenate(([0], np.cumsum(sizes)))

    def remaining(self, lane: int, taken: int) -> Iterator[Turns]:
        """Yield the groups of parts of a lane after its first `taken` samples."""
        head, groups = self.bounds[lane] + taken, self._groups
        begins = self._edges[groups]
        first = int(np.searchsorted(begins, head, side="right")) - 1
        last = int(np.searchsorted(begins, self.bounds[lane + 1]))
        for number in range(first, last):
            parts = slice(groups[number], groups[number + 1])
            sizes = np.diff(self._edges[parts.start : parts.stop + 1])
            done = max(int(head - begins[number]), 0)
            yield Turns(self._lanes[parts], self._starts[parts], sizes, done)

    def after(self, taken: Counts, sizes: Counts) -> Layout:
        """Return a layout with new lanes, without the first `taken` samples of each old lane."""
        starts, stops = self._starts + self._done(taken), self._starts + np.diff(self._edges)
        return Layout(self._lanes, starts, stops, sizes, self._at_once)

    def _done(self, taken: Counts) -> Counts:
        """Return how many samples of each part are among the first `taken` of its lane."""
        sizes, groups = np.diff(self._edges), self._groups
        heads = self.bounds[:-1] + taken
        ahead = np.repeat(heads, np.diff(self._firsts)) - self._edges[:-1]
        done: Counts = np.clip(ahead, 0, sizes)  # of groups that are read as a whole, or not at all
        begins = self._edges[groups]
        begun = np.searchsorted(begins, heads, side="right") - 1
        is_within = begins[begun] < heads
        begun, heads = begun[is_within], heads[is_within]
        counts = groups[begun + 1] - groups[begun]
        firsts = np.cumsum(counts) - counts
        parts = np.arange(counts.sum()) + np.repeat(groups[begun] - firsts, counts)
        if len(parts):
            _, done[parts] = progress(sizes[parts], firsts, heads - begins[begun])
        return done


def _merged(one: Counts, other: Counts) -> Counts:
    """Return the numbers in two ascending arrays, each once."""
    found = np.concatenate((one, other))
    found.sort(kind="stable")  # a stable sort is fast on ascending runs
    return found[np.concatenate(([True], found[1:] > found[:-1]))]


def _grouped(firsts: Counts, at_once: int) -> tuple[Counts, Counts]:
    """Return the place of each part among all groups, and the first part of each group.

    Of n groups in a lane, one has every n-th part, so that it has samples of the whole lane.
    """
    counts = np.diff(firsts)
    if counts.max(initial=0) <= at_once:  # quick
        return np.arange(firsts[-1]), np.append(firsts[:-1][counts > 0], firsts[-1])
    groups = -(-counts // at_once)
    lanes = np.repeat(np.arange(len(counts)), counts)
    numbers = np.arange(firsts[-1]) - firsts[lanes]
    rounds, group = np.divmod(numbers, groups[lanes])
    smaller, larger = np.divmod(counts, np.maximum(groups, 1))
    begins = firsts[lanes] + group * smaller[lanes] + np.minimum(group, larger[lanes])
    return begins + rounds, np.append(begins[rounds == 0], firsts[-1])


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
    at_once : int
        How many parts of older lanes are read in turns. 1: one after another, as by rule 0.
    """

    num_samples: int
    first_number: int
    stop: int | None
    lanes: tuple[Lanes, ...]
    at_once: int = AT_ONCE

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
        if tail is not None:
            firsts = tail + members * padded_to
            found += np.maximum(np.minimum(stop, firsts + padded_to) - np.maximum(start, firsts), 0)
        return found

    def first_lane(self, lane: int) -> range:
        """Return the samples of a lane in the first layout, numbered within the epoch."""
        bounds = _layout(replace(self, lanes=self.lanes[:1])).bounds
        return range(int(bounds[lane]), int(bounds[lane + 1]))

    def remaining(self, lane: int, consumed: int) -> Iterator[Turns]:
        """Yield what is left of a lane once `consumed` samples in the epoch have been read."""
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
        zeros = np.zeros(lanes.size, np.int64)
        return Layout(np.arange(lanes.size), zeros, sizes, sizes, epoch.at_once)
    before = replace(epoch, lanes=epoch.lanes[:-1])
    taken = before.num_of_each(first + before.lanes[-1].consumed, begins)
    return _layout(before).after(taken, sizes)
