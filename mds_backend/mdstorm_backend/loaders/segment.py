"""`Segment`: the remaining batches of a pass or epoch, read without interruption.

It holds the options and the `Position` at which reading begins, and makes the `Plan` of its batches
from them. Adapters for PyTorch, TensorFlow and readers call `Segment.blocks`, either in this
process or, since a `Segment` can be pickled, in each worker process for a part of the batches.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from mdstorm_backend.base import cached_property
from mdstorm_backend.base.recorder import Recorder
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.loaders.reader_options import ReaderOptions
from mdstorm_backend.order import Plan, Position, RowPlan
from mdstorm_backend.read import Block
from mdstorm_backend.read.refill import Refill
from mdstorm_backend.read.shard import warn_no_data

#: Approximate maximum number of epochs in a block, so that the first batch of an endless pass over
#: a few rows does not have to wait for thousands of epochs.
_EPOCHS_PER_BLOCK = 16


@dataclass(frozen=True, eq=False)
class Segment:
    """A pass or an epoch, starting at a position and read without interruption. Can be pickled.

    Attributes
    ----------
    options : ReaderOptions
        The data to read, and how.
    start : Position
        Where the segment begins: see `Plan.start`.
    recorder : Recorder or None
        Records the reading in this process; None to record nothing.
    """

    options: ReaderOptions
    start: Position
    recorder: Recorder | None = None

    @cached_property
    def plan(self) -> Plan:
        """The batches of the segment."""
        return self.options.plan(self.start)

    @property
    def position(self) -> Position:
        """The position where the segment begins, with missing values filled in for this world."""
        return self.plan.resolved_start

    @property
    def least_rows(self) -> int:
        """Minimum number of rows in a yielded batch; 0 if any batch may have lost rows.

        Batches that lose damaged samples are yielded, since all ranks need the same number.
        """
        is_cut = self._refill is not None or self.options.steps.skips
        return self.options.batch_size if self.options.drop_last and not is_cut else 0

    @property
    def _refill(self) -> Refill | None:
        """What cuts batches from the rows that functions return, if the plan has no numbers."""
        options, plan = self.options, self.plan
        if not (options.calls_functions and isinstance(plan, RowPlan)):
            return None
        has_contents = options.reading.files is not None and options.steps.transform is not None
        return Refill(plan, options.dataset, options.slices or has_contents, options.keep)

    def blocks(
        self, part: int = 0, *, block_rows: int | None = None, unread: bool = False
    ) -> Iterator[Block]:
        """Read the batches of a part, or only plan them if `unread`: see `BlockReader.planned`."""
        plan, options = self.plan, self.options
        most = _EPOCHS_PER_BLOCK * max(plan.rows_per_epoch, 1)
        blocks = options.block_reader(min(block_rows or options.block_rows, most), self.recorder)
        if (refill := self._refill) is not None:
            return blocks.refilled(refill, part)
        samples = plan.samples(part)
        return blocks.planned(samples) if unread else blocks.blocks(samples)

    def following(self) -> Segment | None:
        """Return the segment of the next epoch, or None if the pass has no further epoch."""
        plan = self.plan.following()
        return None if plan is None else replace(self, start=plan.start)

    def with_batches(self) -> Segment | None:
        """Return this segment or, if it is empty, the segment of the next epoch or pass.

        If there is nothing to read, warn and return None. A finite pass may have no batches even
        from its beginning, if all of them are dropped.
        """
        segment = self.remaining()
        num_samples, ends = segment.plan.num_samples, self.options.num_epochs is not None
        if segment.plan.num_batches() != 0 or (num_samples and ends):
            return segment
        warn_no_data(self.options.dataset.url, dropped=num_samples > 0)
        return None

    def onward(self) -> Iterator[Segment]:
        """Yield this segment and the following ones."""
        segment: Segment | None = self
        while segment is not None:
            yield segment
            segment = segment.following()

    def seek(self, batches: int, what: str) -> tuple[Segment, int]:
        """Return where the last of the next `batches` batches is, at least one.

        Returns
        -------
        segment : Segment
            The segment of the pass that has this batch.
        count : int
            Number of batches in the segment up to this one.

        Raises
        ------
        InvalidArgumentError
            If the pass ends before; `what` names the number in the message.
        StateMismatchError
            If only reading shows where batches end.
        """
        segment, left = self.remaining(), batches
        while segment.plan.offset_after(left) is None:
            count, following = segment.plan.num_batches(), segment.following()
            # An epoch in which all batches are dropped is followed by others like it.
            if following is None or not count:
                most = "" if count is None else f": at most {batches - left + count} remain"
                raise InvalidArgumentError(
                    f"{what} is beyond the end of the pass{most}. Pass a smaller number, or begin "
                    "the next epoch with set_epoch() instead"
                )
            segment, left = following, left - count
        return segment, left

    def remaining(self) -> Segment:
        """Return this segment or, if it is over, the segment of the next epoch or pass."""
        segment = self
        while segment.is_over:
            after = segment.position.beginning_of(segment.position.epoch + 1)
            segment = segment.following() or replace(segment, start=after)
        return segment

    @property
    def is_over(self) -> bool:
        """Whether no batches remain because the pass or epoch was resumed at its end."""
        return self.position.consumed > 0 and self.plan.num_batches() == 0
