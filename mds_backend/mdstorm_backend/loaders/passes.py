"""`Pass`: one iteration of a loader, and its position."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from itertools import islice
from typing import Any, TypeAlias

from mdstorm_backend.base.recorder import Recorder
from mdstorm_backend.loaders.agreement import compare_pass, is_compared
from mdstorm_backend.loaders.consumer import MOST_UNUSED, Usage
from mdstorm_backend.loaders.epochs import Epochs
from mdstorm_backend.loaders.reader_options import ReaderOptions
from mdstorm_backend.loaders.segment import Segment
from mdstorm_backend.order import Plan, Position

_logger = logging.getLogger(__name__)

#: A position in `Pass.recent`.
_Recent: TypeAlias = tuple[Plan, int, int]


class Pass:
    """One iteration of a loader.

    Parameters
    ----------
    epochs : Epochs
        Holds where the next iteration begins.
    here : ReaderOptions
        How the pass is read, with the share of the rows that it keeps until its end.
    usage : Usage
        How much of the pass has been used, and where it starts.

    Attributes
    ----------
    seen : int
        The value of `Epochs.changes` when the latest batch was taken.
    recent : tuple of (Plan, int, int)
        The positions after the latest batches, ending with the latest one. Each consists of the
        segment's plan, the offset in it, and the number of items in the batch (1 unless it is
        split). The first ones are the beginning of the pass. There are ``MOST_UNUSED + 1``, or none
        before the first segment.
    taken : int
        Number of items of the batch after the latest position that have been taken.
    border : int
        The offset at which batches begin to hold samples of a later epoch: see `cross_border`.
    logs_endless : bool
        Whether to log that the pass is endless when its second epoch begins.
    to_compare : Segment or None
        The segment to `compare` with other ranks; None once that is done, or if it is not needed.
    """

    def __init__(self, epochs: Epochs, here: ReaderOptions, usage: Usage) -> None:
        self.here, self.usage = here, usage
        self._epochs = epochs
        self.seen = epochs.changes
        #: The epoch of the latest batch.
        self._epoch = usage.start.epoch
        self._segment: Segment | None = None
        self.recent: tuple[_Recent, ...] = ()
        self.taken = usage.start.skip
        self.border = 0
        self.logs_endless = True
        self.to_compare: Segment | None = None
        #: Rows yielded so far in the segment.
        self.yielded = 0

    @property
    def is_over(self) -> bool:
        """Whether the end of the pass was requested, and the pass is not endless."""
        return self.usage.is_over and self.here.num_epochs is not None

    @property
    def num_unused(self) -> int:
        """How many of the latest batches were taken and have not been used yet."""
        return self.usage.consumer.num_unused

    @property
    def position(self) -> Position:
        """The position after the latest item."""
        return self.position_before(0)

    def position_before(self, items: int) -> Position:
        """Return the position before the latest `items` items; `items` is at most `MOST_UNUSED`."""
        if not self.recent:
            return self.usage.start
        (plan, offset, _), taken = self._before(items)
        position = plan.end() if self.is_over and not items else plan.position(offset)
        return replace(position, skip=taken) if taken else position

    def segment_start_before(self, items: int) -> Position:
        """Return where the segment that contains ``position_before(items)`` began.

        Before the first segment, this is where the pass starts.
        """
        return self._before(items)[0][0].resolved_start if self.recent else self.usage.start

    def _before(self, items: int) -> tuple[_Recent, int]:
        """Return what ``recent[-1]`` and `taken` were before the latest `items` items."""
        batch, taken = len(self.recent) - 1, self.taken - items
        while taken < 0 and batch:
            taken += self.recent[batch][2]
            batch -= 1
        return self.recent[batch], max(taken, 0)

    @property
    def segment(self) -> Segment:
        """The segment that is being read; available once the first batch was requested."""
        assert self._segment is not None
        return self._segment

    def segments(self, recorder: Recorder) -> Iterator[Segment]:
        """Yield the segments of the pass one by one; `recorder` records their reading."""
        for segment in self.planned(recorder):
            self.enter(segment)
            yield segment

    def planned(self, recorder: Recorder) -> Iterator[Segment]:
        """Yield the segments of the pass in turn; the caller must `enter` each one before use."""
        start = replace(self.usage.start, skip=0)  # `items` skips these
        if (first := Segment(self.here, start, recorder).with_batches()) is None:
            return
        # The segment is in a later pass if no batches remained in the pass where `start` is.
        if first.position.pass_epoch != self.usage.start.pass_epoch:
            self.usage.start, self.usage.is_resumed = first.start, False
        self.to_compare = first if is_compared(first) else None
        yield from first.onward()

    def enter(self, segment: Segment) -> None:
        """Record that batches of a segment are used from now on."""
        self._epochs.enter(self.usage, segment.position)
        if self._segment is not None:
            self._log_endless()
        self._epoch = segment.position.epoch
        self._segment, self.yielded = segment, 0
        self.replace_latest(0)  # the end of the previous segment is the beginning of this one
        self.border = segment.plan.offset_after_epoch(self._epoch)

    def record_offset(self, segment: Segment, offset: int) -> None:
        """Record the latest batch, entering its segment first if it is a new one: see `planned`."""
        if segment is not self._segment:
            self.enter(segment)
        if offset >= self.border:
            self.cross_border(offset)
        self.recent = (*self.recent[-MOST_UNUSED:], (self.segment.plan, offset, 1))

    def replace_latest(self, offset: int) -> None:
        """Replace the latest position with one that is reached without yielding anything."""
        if not self.recent:
            self.recent = ((self.segment.plan, offset, 0),) * (MOST_UNUSED + 1)
        items = self.recent[-1][2]
        self.recent = (*self.recent[:-1], (self.segment.plan, offset, items))

    def items(self, batch: Iterable[Any], offset: int) -> Iterator[Any]:
        """Yield the remaining items of a batch, count each in `taken`, and advance to `offset`."""
        plan, taken = self.segment.plan, self.taken
        self.usage.batches += 1
        # No call comes between counting an item and yielding it: Ctrl-C takes effect after calls,
        # and would lose the item.
        for self.taken, item in enumerate(islice(batch, taken, None), taken + 1):
            yield item
        if self.taken:
            self.recent = (*self.recent[-MOST_UNUSED:], (plan, offset, self.taken))
        else:
            self.replace_latest(offset)
        self.taken = 0

    def cross_border(self, offset: int) -> None:
        """Record that the batch at `offset` contains samples of a later epoch."""
        epoch = self.segment.plan.position(offset).epoch
        if epoch > self._epoch:
            self._epochs.reach(self.usage, epoch)
            self._log_endless()
            self._epoch = epoch
        self.border = self.segment.plan.offset_after_epoch(epoch)

    def compare(self) -> None:
        """Compare the pass with other ranks, unless it has been compared.

        Raises
        ------
        InvalidArgumentError
            If ranks lose rows because they differ.
        """
        segment, self.to_compare = self.to_compare, None
        if segment is not None:
            compare_pass(segment, self._epochs, self.usage)

    def _log_endless(self) -> None:
        if self.here.num_epochs is None and self.logs_endless:
            _log_endless(self.here.dataset.url)

    def skip_to_next(self) -> None:
        """Begin with the next epoch, since the epoch where the pass started has no rows left."""
        start = self.usage.start
        self.usage.start = start.beginning_of(start.epoch + 1)
        self._segment = None
        self.recent, self.taken = (), 0

    def finish(self) -> None:
        """Record that the end of the pass was requested, possibly ahead of use."""
        self.usage.is_over = True
        self._epochs.reach(self.usage, self.position.epoch)
        if self.usage.consumer.has_used_end:
            self.compare()

    def leave(self) -> None:
        """Record that the iteration has ended."""
        self.usage.is_left = True
        if self.usage.is_resumed and not self.usage.is_over:
            self.usage.rows_left = self._count_rows_left()

    def _count_rows_left(self) -> int:
        """Return the number of rows, on all ranks, that have not been used in the first epoch.

        0 if there are no more batches, or their number is not known.
        """
        position = self.position_before(self.num_unused)
        if self._segment is None or position.epoch != self.usage.start.epoch:
            return 0
        rest = Segment(self.here, replace(position, skip=0))
        if not rest.plan.num_batches():
            return 0
        return max(self._segment.plan.num_samples - position.consumed, 0)

    def is_at(self, position: Position) -> bool:
        """Whether a checkpoint taken now would be at `position`, give or take one sample per rank.

        A finished pass is also at its beginning, because nothing has been counted since its end. So
        is a pass whose iteration was left after the last batch, because Composer does not request
        the end if it knows the length.
        """
        if self._segment is None:
            return False
        unused, plan = self.num_unused, self._segment.plan
        mine, is_used_up = self.position_before(unused), self.is_over and not unused
        is_beginning = (position.epoch, position.consumed) == (self.usage.start.pass_epoch, 0)
        passed = (
            (mine.epoch - position.epoch) * plan.num_samples + mine.consumed - position.consumed
        )
        is_at_end = self.here.is_last_epoch(mine) and mine.is_end
        is_finished = is_used_up or (self.usage.is_left and is_at_end)
        return (is_finished and is_beginning) or abs(passed) < self.here.order.num_ranks


@cache
def _log_endless(url: str) -> None:
    """Log, once per URL in this process, that an endless pass has finished its first epoch."""
    _logger.warning(
        "The first epoch of %s has ended, but with num_epochs=None the loop never ends: break out "
        "of it after some steps (steps_per_epoch in Keras), or pass num_epochs=1 for one epoch",
        url,
    )
