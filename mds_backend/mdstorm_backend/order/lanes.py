"""The places of a pass, the ranks that take them, and the lanes in which an epoch lies.

The samples of a pass are numbered through all of its epochs: sample number K stands at *place* K,
and of W ranks, rank r takes the places K with ``K mod W == r·g mod W``, where g is coprime to W and
near 0.618 W. An epoch lies in as many contiguous *lanes* as there were ranks when its first sample
was taken, and places belong to lanes as they belong to ranks. So each rank reads a lane of its own,
and where the world stands is one number: how many samples it has consumed.

If another number of ranks goes on in the middle of an epoch, what is left of all lanes, one after
the other, is cut anew into as many lanes as there are ranks now.

The stride g spreads the ranks that have a sample more than others, so that the borders of lanes
move by a few samples from epoch to epoch, and hosts do not need each other's shards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from math import gcd
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Counts = npt.NDArray[np.int64]


class Lanes(NamedTuple):
    """How an epoch, or what was left of one, was laid out.

    Attributes
    ----------
    consumed : int
        Samples of the epoch that the world had consumed before.
    size : int
        Number of lanes: as many as there were ranks.
    padded_to : int
        Rows of a batch if only the last step of all ranks is to need padding, whose places then
        fill the batch of one rank after the other; 0 if they belong to ranks as all others do.
    """

    consumed: int
    size: int
    padded_to: int = 0


class Stretch(NamedTuple):
    """The samples `start` to `stop` of lane number `lane` of the first layout, as that is read."""

    lane: int
    start: int
    stop: int


def ceil_div(dividend: int, divisor: int) -> int:
    """Divide integers, rounding up."""
    return -(-dividend // divisor)


@lru_cache(maxsize=256)
def stride(count: int) -> int:
    """Return a number coprime to `count` and near 0.618 of it."""
    wanted = round(count * 0.618)
    near = (g for away in range(count + 1) for g in (wanted - away, wanted + away))
    return next(g for g in near if 0 < g <= count and gcd(g, count) == 1)


@dataclass(frozen=True)
class Deal:
    """Which places belong to which of `count` ranks, or lanes.

    Attributes
    ----------
    count : int
        How many there are.
    tail : int or None
        From this place on, the places fill the batches of one rank after the other.
    padded_to : int
        Rows of these batches.
    """

    count: int
    tail: int | None = None
    padded_to: int = 0

    @classmethod
    def of(cls, lanes: Lanes, first_place: int, stop: int | None) -> Deal:
        """Return the deal of lanes in an epoch that begins at a place, in a pass up to `stop`."""
        count, padded_to = lanes.size, lanes.padded_to
        if not padded_to or stop is None:
            return cls(count)
        start, step = first_place + lanes.consumed, count * padded_to
        return cls(count, start + (stop - start) // step * step, padded_to)

    def num_places(self, member: int, start: int, stop: int) -> int:
        """Return how many of the places `start` to `stop` belong to one of them."""
        if self.tail is None:
            residue = member * stride(self.count) % self.count
            return ceil_div(max(stop - start - (residue - start) % self.count, 0), self.count)
        return int(self.all_places(start, stop)[member])

    def all_places(self, start: int, stop: int) -> Counts:
        """Return how many of the places `start` to `stop` belong to each: int64 of `count`."""
        regular = stop if self.tail is None else min(stop, self.tail)
        members = np.arange(self.count)
        residues = members * stride(self.count) % self.count
        ahead = (residues - start % self.count) % self.count
        found: Counts = -(-np.maximum(regular - start - ahead, 0) // self.count)
        if self.tail is not None and stop > self.tail:
            firsts = self.tail + members * self.padded_to
            found += np.maximum(
                np.minimum(stop, firsts + self.padded_to) - np.maximum(start, firsts), 0
            )
        return found


class Layout:
    """What is left of an epoch when lanes begin: stretches, one after the other, cut into lanes.

    Parameters
    ----------
    lanes, starts, stops : numpy.ndarray
        int64, the stretches: see `Stretch`.
    sizes : numpy.ndarray
        int64, the samples of each lane.
    """

    def __init__(self, lanes: Counts, starts: Counts, stops: Counts, sizes: Counts) -> None:
        self._lanes, self._starts = lanes, starts
        self._ends = np.cumsum(stops - starts)
        self.bounds = np.concatenate(([0], np.cumsum(sizes)))

    def rest(self, lane: int, taken: int) -> Iterator[Stretch]:
        """Yield what is left of a lane after `taken` of its samples."""
        lows = self.bounds[[lane]] + taken
        found = self._chosen(lows, self.bounds[[lane + 1]])
        for stretch in zip(*(values.tolist() for values in found), strict=True):
            yield Stretch(*stretch)

    def after(self, taken: Counts, sizes: Counts) -> Layout:
        """Return the layout of what is left after some samples of each lane, in lanes anew."""
        return Layout(*self._chosen(self.bounds[:-1] + taken, self.bounds[1:]), sizes)

    def _chosen(self, lows: Counts, highs: Counts) -> tuple[Counts, Counts, Counts]:
        """Return the stretches within some ranges of samples, which ascend."""
        inner = self._ends[(self._ends > lows[0]) & (self._ends < highs[-1])]
        edges = np.concatenate((lows, highs, inner))
        edges.sort(kind="stable")  # fast on runs that ascend
        begins, ends = edges[:-1], edges[1:]
        owners = np.searchsorted(highs, begins, side="right")
        is_in = (begins >= lows[np.minimum(owners, len(lows) - 1)]) & (begins < ends)
        begins, ends = begins[is_in], ends[is_in]
        places = np.searchsorted(self._ends, begins, side="right")
        before = np.concatenate(([0], self._ends[:-1]))[places]
        lanes, starts = self._lanes[places], self._starts[places] + begins - before
        stops = starts + ends - begins
        goes_on = (lanes[1:] == lanes[:-1]) & (starts[1:] == stops[:-1])
        first = np.concatenate(([True], ~goes_on))[: len(lanes)]
        last = np.concatenate((~goes_on, [True]))[: len(lanes)]
        return lanes[first], starts[first], stops[last]


@dataclass(frozen=True)
class EpochLanes:
    """The lanes of one epoch, from its first sample on.

    Attributes
    ----------
    num_samples : int
        Samples of the epoch.
    first_place : int
        Place of the first of them in the pass.
    stop : int or None
        The place after the last one of the pass; None if it never ends.
    lanes : tuple of Lanes
        The first ones, and those of each change of the world within the epoch.
    """

    num_samples: int
    first_place: int
    stop: int | None
    lanes: tuple[Lanes, ...]

    @property
    def deal(self) -> Deal:
        """Which places belong to which of the last lanes."""
        return Deal.of(self.lanes[-1], self.first_place, self.stop)

    def first_lane(self, lane: int) -> range:
        """Return the samples of a lane of the first layout, by their position in the epoch."""
        bounds = _first_layout(self.num_samples, self.first_place, self.stop, self.lanes[0]).bounds
        return range(int(bounds[lane]), int(bounds[lane + 1]))

    def taken(self, lane: int, consumed: int) -> int:
        """Return the samples of one of the last lanes after so many of the epoch."""
        place = self.first_place
        return self.deal.num_places(lane, place + self.lanes[-1].consumed, place + consumed)

    def rest(self, lane: int, consumed: int) -> Iterator[Stretch]:
        """Yield what is left of one of the last lanes after so many samples of the epoch."""
        return _layout(self).rest(lane, self.taken(lane, consumed))


@lru_cache(maxsize=64)
def _first_layout(num_samples: int, first_place: int, stop: int | None, lanes: Lanes) -> Layout:
    deal = Deal.of(lanes, first_place, stop)
    sizes = deal.all_places(first_place, first_place + num_samples)
    return Layout(np.arange(lanes.size), np.zeros(lanes.size, np.int64), sizes, sizes)


@lru_cache(maxsize=16)
def _layout(epoch: EpochLanes) -> Layout:
    """Return what was left of an epoch when its last lanes began."""
    place, stop = epoch.first_place, epoch.first_place + epoch.num_samples
    layout = _first_layout(epoch.num_samples, place, epoch.stop, epoch.lanes[0])
    for before, lanes in zip(epoch.lanes[:-1], epoch.lanes[1:], strict=True):
        begins = place + lanes.consumed
        taken = Deal.of(before, place, epoch.stop).all_places(place + before.consumed, begins)
        sizes = Deal.of(lanes, place, epoch.stop).all_places(begins, stop)
        layout = layout.after(taken, sizes)
    return layout
