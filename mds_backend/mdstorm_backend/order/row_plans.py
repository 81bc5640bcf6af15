"""Plans that count one rank's rows, because samples cannot be numbered across ranks.

That is the case if each batch is a row group, or if a transform may return any number of rows. Only
the rank itself then knows how far it has read, and ranks may have different numbers of batches.

- `RowGroupPlan`: each batch is this rank's part of a shard, or a window of such parts.
- `RefilledPlan`: the rows that a transform returns fill batches, or each of its windows is a batch.
- `EvenPlan`: the rows that a transform returns are spread over batches that are planned by the rows
  that it receives, so that all ranks have the same number of batches.

The offset of a batch combines its epoch and the rows read in that epoch: see `RowGroupPlan.offset`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count, islice, tee
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from mdstorm_backend.base import cached_property
from mdstorm_backend.errors import StateMismatchError
from mdstorm_backend.order.exact import ExactOrder
from mdstorm_backend.order.lanes import ceil_div
from mdstorm_backend.order.plan import Chunk, Plan, Position, Samples

#: More rows than any epoch has; used to combine an epoch and a number of rows into an offset.
_MOST_ROWS = 1 << 40


@dataclass(frozen=True, eq=False)
class RowGroupPlan(Plan):
    """A `Plan` whose batches are one rank's parts of shards, or windows of such parts.

    Attributes
    ----------
    order : ExactOrder
        The order, with a fixed seed, and the rank.
    bounds : numpy.ndarray
        int64, number of each shard's first sample, then the total number of samples.
    batch_size : int or None
        Number of rows per batch, counted in the plan's rows if it is an `EvenPlan`, or else as a
        transform returns them; None if each row group or window is a batch.
    """

    order: ExactOrder
    bounds: npt.NDArray[np.int64]
    batch_size: int | None = None
    has_equal_batches: ClassVar[bool] = False
    numbers_samples: ClassVar[bool] = False
    unknown_because: ClassVar[str] = "batches are row groups, which differ in size"

    @cached_property
    def num_samples(self) -> int:
        """Number of samples in an epoch, over all ranks."""
        return int(self.bounds[-1])

    @cached_property
    def rows(self) -> range:
        """Samples that belong to this rank."""
        return self.order.rows(self.num_samples)

    @property
    def rows_per_epoch(self) -> int:
        """Number of this rank's rows in one epoch."""
        return len(self.rows)

    @cached_property
    def begin(self) -> Position:
        """The position where the plan begins, with the order's seed."""
        _ = self.rows  # checks the number of ranks
        return replace(self.start, first_epoch=self.start.pass_epoch, seed=self.order.seed)

    @property
    def epochs(self) -> Iterator[int]:
        """The epochs from the beginning of the plan onward."""
        first, last = self.begin.epoch, self.last_epoch
        return count(first) if last is None else iter(range(first, last + 1))

    @staticmethod
    def offset(epoch: int, row: int) -> int:
        """Return the offset of a batch that ends in `epoch` after `row` of this rank's rows."""
        return epoch * _MOST_ROWS + row

    def position(self, offset: int) -> Position:
        """Return the position after a batch."""
        if not offset:
            return self.begin
        epoch, row = divmod(offset, _MOST_ROWS)
        consumed = row * self.order.world_size
        end = consumed if self._is_over(epoch, row) else None
        return self.begin.advanced(epoch, consumed, row=row, end=end)

    def _is_over(self, epoch: int, row: int) -> bool:
        """Whether the last batch has certainly been read, and no rank has batches left."""
        is_alone = self.order.world_size == 1
        return is_alone and epoch == self.last_epoch and row >= self.rows_per_epoch

    def end(self) -> Position:
        """Return the position at the end of the pass; `begin` if it never ends."""
        if self.last_epoch is None:
            return self.begin
        return self.position(self.offset(self.last_epoch, self.rows_per_epoch)).ended()

    def num_batches(self) -> int | None:
        """Return 0 if no batches remain; otherwise None, because their number is not known."""
        begin = self.begin
        is_over = begin.is_end or not self.num_samples or self._is_over(begin.epoch, begin.row)
        return 0 if is_over else None

    def offset_after(self, batches: int) -> int | None:
        """Return the offset after this many row groups; None if the plan has fewer."""
        groups = self._groups() if len(self.rows) else iter(())
        return next((offset for _, offset in islice(groups, batches - 1, None)), None)

    def offset_after_epoch(self, epoch: int) -> int:
        """Return the offset after the first row of the next epoch."""
        return self.offset(epoch + 1, 1)

    def samples(self, part: int = 0) -> Samples:
        """Return the row groups of a part, each of which is a batch."""
        chunks, sized, ended = tee(islice(self._groups(), part, None, self.num_parts), 3)
        return Samples(
            (chunk for chunk, _ in chunks),
            (len(chunk) for chunk, _ in sized),
            (offset for _, offset in ended),
        )

    def _groups(self) -> Iterator[tuple[Chunk, int]]:
        """Yield the row groups or windows, each with its offset."""
        skipped, rows, order = self.begin.row, self.rows, self.order
        for epoch in self.epochs:
            row = 0
            chunks: Iterator[Chunk] = (
                order.chunks(self.bounds, rows, epoch, range(len(rows)))
                if order.shuffles
                else iter(order.pieces(self.bounds, rows, epoch))
            )
            for chunk in chunks:
                used = chunk[max(skipped - row, 0) :]
                row += len(chunk)
                if len(used):
                    yield used, self.offset(epoch, row)
            skipped = 0


class RefilledPlan(RowGroupPlan):
    """A `Plan` for batches of the rows that a transform returns; the number of rows is unknown."""

    unknown_because: ClassVar[str] = (
        "a transform without keeps_rows=True, predicate, filter or cache may change the number of "
        "rows"
    )

    def _is_over(self, epoch: int, row: int) -> bool:
        return False

    def offset_after(self, batches: int) -> int | None:
        """Raise StateMismatchError, because only reading shows where batches end."""
        raise StateMismatchError(
            f"{self.unknown_because}, so batches cannot be skipped without reading them: take "
            "batches from the loader and leave them unused instead"
        )


@dataclass(frozen=True, eq=False)
class EvenPlan(RefilledPlan):
    """A `Plan` with a known number of batches, over which a transform's rows are spread.

    It counts the transform's input rows: each batch ends after `batch_size` of them.
    """

    batch_size: int
    has_equal_batches: ClassVar[bool] = True

    @property
    def rows_per_epoch(self) -> int:
        """Number of each rank's rows in an epoch, rounded up to be the same on all ranks."""
        return max(ceil_div(self.num_samples, self.order.world_size), 1)

    @property
    def done(self) -> int:
        """Number of rows of the pass that this rank has read when the plan begins."""
        begin = self.begin
        return (begin.epoch - begin.pass_epoch) * self.rows_per_epoch + begin.row

    def _is_over(self, epoch: int, row: int) -> bool:
        if self.num_epochs is None:
            return False
        rows = self.rows_per_epoch
        dropped = self.num_epochs * rows % self.batch_size if self.drop_last else 0
        return epoch == self.last_epoch and row >= rows - dropped

    def num_batches(self) -> int | None:
        """Return the number of batches, the same on all ranks; None if the pass never ends."""
        found = super().num_batches()
        if self.num_epochs is None or found == 0:
            return found
        rows, size = self.num_epochs * self.rows_per_epoch, self.batch_size
        whole = rows // size if self.drop_last else ceil_div(rows, size)
        return whole - self.done // size

    def offset_after(self, batches: int) -> int | None:
        """Return the offset after this many batches; None if the plan has fewer."""
        count, size = self.num_batches(), self.batch_size
        if count is not None and batches > count:
            return None
        row = (self.done // size + batches) * size
        if self.num_epochs is not None:
            row = min(row, self.num_epochs * self.rows_per_epoch)
        return self.offset_of_row(row)

    def ends(self, start: int, stop: int) -> list[int]:
        """Return the rows of the pass at which batches end, after `start` and up to `stop`."""
        size = self.batch_size
        ends = list(range((start // size + 1) * size, stop + 1, size))
        is_last = self.num_epochs is not None and stop == self.num_epochs * self.rows_per_epoch
        if is_last and stop % size and not self.drop_last:
            ends.append(stop)
        return ends

    def offset_of_row(self, row: int) -> int:
        """Return the offset of a batch that ends after `row` rows of the pass."""
        epoch = (row - 1) // self.rows_per_epoch
        return self.offset(self.begin.pass_epoch + epoch, row - epoch * self.rows_per_epoch)
