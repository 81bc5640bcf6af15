"""What is left of a pass that goes on in another world, or with another batch size.

A state says how many batches each rank has had, and not which rows: those follow from the world and
the batch size, and from what was left when that world began. What is left of an epoch is split anew
among the ranks of the next one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate, islice
from typing import NamedTuple

from mdstorm_backend.base.cached_property import cached_property
from mdstorm_backend.errors import NoDataAvailableError, StateMismatchError
from mdstorm_backend.order.shares import PassRows, Place, Split, ceil_div


class Segment(NamedTuple):
    """A part of a pass in which the world and the batch size stayed as they were.

    Attributes
    ----------
    world_size, batch_size : int
        Ranks, and rows of a batch.
    batches : int
        Batches that each rank has had.
    drop_last : bool
        Whether all of them were full.
    padded : bool
        Whether shares were such that only the last global batch needs padding: see `Split`.
    """

    world_size: int
    batch_size: int
    batches: int
    drop_last: bool = False
    padded: bool = False

    @property
    def split(self) -> Split:
        """How an epoch was split among the ranks."""
        return Split(self.world_size, self.batch_size if self.padded else 0)

    def is_like(self, other: Segment) -> bool:
        """Whether batches were made in the same way."""
        return self._replace(batches=0) == other._replace(batches=0)


class Stretch(NamedTuple):
    """Some rows that come one after the other when a rank reads its share of a whole epoch."""

    rank: int
    split: Split
    start: int
    stop: int


@dataclass(frozen=True)
class Begun:
    """What is left of an epoch; `stretches` is None where all of it was delivered afterwards."""

    rows: int
    stretches: tuple[Stretch, ...] | None

    @cached_property
    def _stops(self) -> list[int]:
        """Rows up to the end of each stretch."""
        return list(accumulate(one.stop - one.start for one in self.stretches or ()))

    def cut(self, rows: range) -> Iterator[Stretch]:
        """Choose rows among those that are left, which are numbered from 0."""
        number = bisect_right(self._stops, rows.start)  # there can be one for each rank
        before = self._stops[number - 1] if number else 0
        later = islice(self.stretches or (), number, None)
        return _cut(later, range(rows.start - before, rows.stop - before))


@dataclass(frozen=True)
class Remaining:
    """What is left of a pass when a segment begins.

    Attributes
    ----------
    num_rows : int
        Rows of the dataset.
    first_epoch : int
        The first epoch of which rows are left.
    stop_epoch : int or None
        The epoch after the last one; None if epochs never end.
    begun : tuple of Begun
        The first epochs, as far as rows of them were delivered to any rank.
    """

    num_rows: int
    first_epoch: int
    stop_epoch: int | None
    begun: tuple[Begun, ...] = ()

    def rows_of(self, rank: int, split: Split) -> PassRows:
        """Return how many rows a rank has in each epoch."""
        return PassRows(
            self.first_epoch,
            self.stop_epoch,
            tuple(len(split.share(epoch.rows, rank)) for epoch in self.begun),
            len(split.share(self.num_rows, rank)),
        )

    def num_batches(self, segment: Segment) -> int:
        """Batches until the end of the pass, the same number on every rank.

        Raises
        ------
        NoDataAvailableError
            If there are rows for some ranks but not for all.
        """
        totals = self._totals(segment.split)
        if max(totals) > 0 == min(totals) and not segment.padded:
            raise NoDataAvailableError(
                f"only {sum(totals)} rows are left of this pass, for {segment.world_size} ranks: "
                "resume on at most as many ranks as rows, or begin the next epoch on all of "
                "them, without this state"
            )
        if segment.drop_last:
            return min(totals) // segment.batch_size
        return ceil_div(max(totals), segment.batch_size)

    def _totals(self, split: Split) -> list[int]:
        """Rows of each rank, or where nothing was begun, of one with the most and the fewest."""
        is_whole = not (self.begun or split.padded_to)
        # The first rank has the fewest rows of a whole epoch, and the last one the most.
        ranks: Iterable[int] = (0, split.world_size - 1) if is_whole else range(split.world_size)
        return [self.rows_of(rank, split).total or 0 for rank in ranks]

    def delivered(self, segment: Segment) -> list[int]:
        """Return how many rows each rank has had in a segment."""
        split, size, batches = segment.split, segment.batch_size, segment.batches
        ranks = [self.rows_of(rank, split) for rank in range(split.world_size)]
        if self.stop_epoch is None or segment.drop_last:
            return [batches * size] * len(ranks)
        num_batches = self.num_batches(segment)
        return [split.delivered(rows.total or 0, num_batches, size, batches) for rows in ranks]

    def places(self, segment: Segment) -> list[Place]:
        """Return where each rank stands at the end of a segment."""
        return [
            self.rows_of(rank, segment.split).place(rows)
            for rank, rows in enumerate(self.delivered(segment))
        ]

    def stretches(self, epoch: int, rank: int, split: Split) -> list[Stretch]:
        """Return which rows a rank reads in an epoch, and in which order.

        Raises
        ------
        StateMismatchError
            If nobody knows, since the history says that they were delivered.
        """
        number = epoch - self.first_epoch
        if number >= len(self.begun):
            return [Stretch(rank, split, 0, len(split.share(self.num_rows, rank)))]
        left = self.begun[number]
        if left.stretches is None:
            raise StateMismatchError(
                f"the state cannot be continued: it does not say which rows of epoch {epoch} are "
                "left. Load the state exactly as state_dict() returned it, or start again "
                "without it"
            )
        return list(left.cut(split.share(left.rows, rank)))

    def after(self, segment: Segment) -> Remaining:
        """Return what is left after a segment."""
        places = self.places(segment)
        first_epoch = min(place.epoch for place in places)
        last_epoch = max(place.epoch for place in places)
        epochs = [
            self._left(epoch, places, segment.split) for epoch in range(first_epoch, last_epoch + 1)
        ]
        over = next((n for n, epoch in enumerate(epochs) if epoch.rows), len(epochs))
        first_epoch += over
        return Remaining(self.num_rows, first_epoch, self.stop_epoch, tuple(epochs[over:]))

    def _left(self, epoch: int, places: list[Place], split: Split) -> Begun:
        left: list[Stretch] = []
        for rank, rows in enumerate(self._rows_left(epoch, places, split)):
            if rows:
                left += _cut(self.stretches(epoch, rank, split), rows)
        return Begun(sum(stretch.stop - stretch.start for stretch in left), tuple(left))

    def _rows_left(self, epoch: int, places: list[Place], split: Split) -> Iterator[range]:
        """Yield which rows of its share of an epoch each rank has still to read."""
        for rank, place in enumerate(places):
            rows = self.rows_of(rank, split).of_epoch(epoch)
            done = place.row if place.epoch == epoch else rows * (place.epoch > epoch)
            yield range(done, rows)

    def delivered_of(self, epoch: int, segment: Segment) -> int:
        """Return how many rows of an epoch all ranks have had at the end of a segment."""
        places = self.places(segment)
        left = sum(map(len, self._rows_left(epoch, places, segment.split)))
        return self.num_rows - left

    def is_past(self, segment: Segment) -> bool:
        """Whether all rows of the epochs that were begun before are delivered in a segment."""
        first_whole = self.first_epoch + len(self.begun)
        return all(
            place.epoch >= first_whole or self._ends(place, rank, segment.split)
            for rank, place in enumerate(self.places(segment))
        )

    def _ends(self, place: Place, rank: int, split: Split) -> bool:
        rows = self.rows_of(rank, split)
        return rows.before(place) == sum(rows.begun)


def _cut(stretches: Iterable[Stretch], rows: range) -> Iterator[Stretch]:
    """Choose rows among those of stretches, which are numbered one after the other."""
    first = 0
    for stretch in stretches:
        if first >= rows.stop:
            break
        size = stretch.stop - stretch.start
        start, stop = max(rows.start - first, 0), min(rows.stop - first, size)
        if start < stop:
            yield stretch._replace(start=stretch.start + start, stop=stretch.start + stop)
        first += size


@dataclass(frozen=True)
class History:
    """The segments of a pass.

    Attributes
    ----------
    first_epoch : int
        The first epoch of the first segment.
    stop_epoch : int or None
        The epoch after the last one of the pass; None if epochs never end.
    segments : tuple of Segment
        One after the other.
    rows_left : tuple of int
        Rows that were left of the first epochs when the first segment began, if they were begun
        before. All of them were delivered in that segment.
    """

    first_epoch: int
    stop_epoch: int | None
    segments: tuple[Segment, ...] = ()
    rows_left: tuple[int, ...] = ()

    def remaining(self, num_rows: int) -> Remaining:
        """Return what is left of the pass over so many rows."""
        return _remaining(self, num_rows)

    def places(self, num_rows: int) -> list[Place]:
        """Return where each rank of the last segment stands."""
        return self.without_last().remaining(num_rows).places(self.segments[-1])

    def delivered_of(self, epoch: int, num_rows: int) -> int:
        """Return how many rows of an epoch all ranks together have had."""
        return self.without_last().remaining(num_rows).delivered_of(epoch, self.segments[-1])

    def with_segment(self, segment: Segment, num_rows: int) -> History:
        """Return the history with one more segment, without what no longer matters.

        Once all epochs are over that were begun before this segment, nobody has to know by whom.
        """
        before = self.remaining(num_rows)
        if self.segments and before.is_past(segment):
            sizes = tuple(epoch.rows for epoch in before.begun)
            return History(before.first_epoch, self.stop_epoch, (segment,), sizes)
        return replace(self, segments=(*self.segments, segment))

    def without_last(self) -> History:
        """Return the history before its last segment."""
        return replace(self, segments=self.segments[:-1])


@lru_cache(maxsize=64)
def _remaining(history: History, num_rows: int) -> Remaining:
    begun = tuple(Begun(rows, None) for rows in history.rows_left)
    remaining = Remaining(num_rows, history.first_epoch, history.stop_epoch, begun)
    for segment in history.segments:
        remaining = remaining.after(segment)
    return remaining
