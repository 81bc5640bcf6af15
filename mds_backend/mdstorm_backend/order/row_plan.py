"""`RowPlan`: batches counted in one rank's rows, because samples cannot be numbered across ranks.

That is the case if each batch is a row group, or if a transform may return any number of rows. Only
the rank itself then knows how far it has read, and ranks may have different numbers of batches.

The offset of a batch combines its epoch and the rows read in that epoch: see `RowPlan.offset`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import count, islice, tee
from typing import Any

import numpy as np
import numpy.typing as npt

from mdstorm_backend.base import cached_property
from mdstorm_backend.errors import StateMismatchError
from mdstorm_backend.order.chunk import Chunk
from mdstorm_backend.order.lane_order import LaneOrder
from mdstorm_backend.order.lanes import ceil_div
from mdstorm_backend.order.plan import Plan, Position, Samples
from mdstorm_backend.order.state_values import number, rule_of

#: More rows than any epoch has; used to combine an epoch and a number of rows into an offset.
_MOST_ROWS = 1 << 40

#: Why only reading shows how many rows there are, for messages.
ROWS_UNKNOWN = (
    "a transform without keeps_rows=True, predicate, filter or cache may change the number of rows"
)


@dataclass(frozen=True, eq=False)
class RowPlan(Plan):
    """A `Plan` that counts the rows of one rank.

    Attributes
    ----------
    order : LaneOrder
        The order, with a fixed seed, and the rank.
    bounds : numpy.ndarray
        int64, number of each shard's first sample, then the total number of samples.
    """

    order: LaneOrder
    bounds: npt.NDArray[np.int64]

    @property
    def counts_own_rows(self) -> bool:
        """Whether positions count the rank's own rows: always."""
        return True

    @property
    def counts_stored(self) -> bool:
        """Whether batches end by the stored rows, which are known without reading."""
        return self.batching.cut == "as stored"

    @property
    def batch_size(self) -> int | None:
        """Number of rows after which a batch ends; None if it only ends with a part of a shard."""
        return self.batching.largest if self.batching.by_shard else self.batching.size

    @property
    def even_size(self) -> int | None:
        """Number of stored rows in a batch, if it is fixed, so that ranks have equal batches."""
        return self.batch_size if self.counts_stored and not self.batching.by_shard else None

    @property
    def unequal_because(self) -> str:
        """Why ranks may have different numbers of batches; empty if the numbers are equal."""
        if self.even_size is not None:
            return ""
        return (
            "batches are row groups, which differ in size" if self.counts_stored else ROWS_UNKNOWN
        )

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
        """Number of this rank's rows in one epoch; if batches are equal, of the longest rank."""
        if self.even_size is None:
            return len(self.rows)
        return max(ceil_div(self.num_samples, self.order.world_size), 1)

    @cached_property
    def resolved_start(self) -> Position:
        """The position where the plan begins, with the order's seed."""
        _ = self.rows  # checks the number of ranks
        first_epoch, order = self.start.pass_epoch, self.order
        return replace(self.start, first_epoch=first_epoch, seed=order.seed, rule=order.rule)

    @property
    def epochs(self) -> Iterator[int]:
        """The epochs from the beginning of the plan onward."""
        first, last = (
            self.resolved_start.epoch,
            self.resolved_start.last_epoch(self.batching.num_epochs),
        )
        return count(first) if last is None else iter(range(first, last + 1))

    @staticmethod
    def offset(epoch: int, row: int) -> int:
        """Return the offset of a batch that ends in `epoch` after `row` of this rank's rows."""
        return epoch * _MOST_ROWS + row

    def position(self, offset: int) -> Position:
        """Return the position after a batch."""
        if not offset:
            return self.resolved_start
        epoch, row = divmod(offset, _MOST_ROWS)
        consumed = row * self.order.world_size
        end = consumed if self._is_over(epoch, row) else None
        return self.resolved_start.advanced(epoch, consumed, row=row, end=end)

    def _is_over(self, epoch: int, row: int) -> bool:
        """Whether the last batch has certainly been read, and no rank has batches left."""
        num_epochs = self.batching.num_epochs
        is_last = epoch == self.resolved_start.last_epoch(num_epochs)
        if not self.counts_stored or num_epochs is None or not is_last:
            return False
        rows, size = self.rows_per_epoch, self.even_size
        if size is None:
            return self.order.world_size == 1 and row >= rows
        return row >= rows - (num_epochs * rows % size if self.batching.drop_last else 0)

    def end(self) -> Position:
        """Return the position at the end of the pass; `resolved_start` if it never ends."""
        last = self.resolved_start.last_epoch(self.batching.num_epochs)
        if last is None:
            return self.resolved_start
        return self.position(self.offset(last, self.rows_per_epoch)).ended()

    def state_keys(self, position: Position) -> dict[str, Any]:
        """Return the rank that a position describes, and the rows and batches that it counts."""
        keys = {
            "rule": self.order.rule if position.rule is None else position.rule,
            "rank": self.order.rank,
            "row": position.row,
            "batch_size": self.batching.size,
        }
        largest = self.batching.largest
        return keys if largest is None else {**keys, "largest": largest}

    def resumed(self, ours: Mapping[str, Any]) -> Position:
        """Return where this rank resumes from a state, which counts the rows of one rank.

        Such a state usually describes the rows of only one rank. In a pass with a single epoch, it
        is valid for all ranks as long as batches are full, because rows are counted after the
        transform, and each rank has read the same number.
        """
        position = replace(super().resumed(ours), rule=rule_of(ours))
        order, batching = self.order, self.batching
        _ = self.resolved_start  # raises if there are more ranks than rows
        if "row" not in ours:
            return position
        row, size = number(ours, "row"), number(ours, "batch_size", 1)
        there = number(ours, "rank"), number(ours, "world_size", 1)
        is_full = row % size == 0 and not batching.by_shard
        is_of_all = batching.num_epochs == 1 and is_full and not position.is_end
        is_unread = not (position.consumed or position.skip)
        is_mine = there[0] == order.rank or is_of_all or is_unread
        if not self.unequal_because and position.consumed:
            is_mine = size == batching.size  # then all ranks had the same number of batches
        if there[1] == order.world_size and is_mine:
            return replace(position, row=row)
        raise StateMismatchError(
            f"the state was taken by rank {there[0]} of {there[1]} with batch_size={size}, and "
            f"this is rank {order.rank} of {order.world_size} with batch_size={batching.size}. "
            f"Because {self.unequal_because or ROWS_UNKNOWN}, a state describes only its own rank: "
            "save each rank's state, and load it on the same rank, with the same number of ranks "
            "and the same batch_size"
        )

    def num_batches(self) -> int | None:
        """Return the number of batches, 0 if none remain; None if not known or infinite."""
        begin, size, num_epochs = self.resolved_start, self.even_size, self.batching.num_epochs
        if begin.is_end or not self.num_samples or self._is_over(begin.epoch, begin.row):
            return 0
        if size is None or num_epochs is None:
            return None
        rows = num_epochs * self.rows_per_epoch
        whole = rows // size if self.batching.drop_last else ceil_div(rows, size)
        return whole - self.done // size

    def offset_after(self, batches: int) -> int | None:
        """Return the offset after this many batches; None if the plan has fewer.

        Raises
        ------
        StateMismatchError
            If only reading shows where batches end.
        """
        if not self.counts_stored:
            raise StateMismatchError(
                f"{self.unequal_because}, so batches cannot be skipped without reading them: take "
                "batches from the loader and leave them unused instead"
            )
        if (size := self.even_size) is None:
            groups = self._groups() if len(self.rows) else iter(())
            return next((offset for _, offset in islice(groups, batches - 1, None)), None)
        if super().offset_after(batches) is None:
            return None
        row = (self.done // size + batches) * size
        if self.batching.num_epochs is not None:
            row = min(row, self.batching.num_epochs * self.rows_per_epoch)
        return self.offset_of_row(row)

    def offset_after_epoch(self, epoch: int) -> int:
        """Return the offset after the first row of the next epoch."""
        return self.offset(epoch + 1, 1)

    def reached(self, samples: int, *, from_beginning: bool = False) -> Position:
        """Raise StateMismatchError, since a position counts the rows of this rank."""
        raise StateMismatchError(
            f"{self.unequal_because or ROWS_UNKNOWN}, so a number of samples does not determine a "
            "position in the dataset: take the state from a StreamingDataLoader over it, "
            "loader.state_dict()"
        )

    def epoch_sizes(self) -> Iterator[int]:
        """Yield the number of this rank's samples in each epoch, from the plan's beginning on."""
        skipped = self.resolved_start.row
        for _ in self.epochs:
            yield len(self.rows) - skipped
            skipped = 0

    def samples(self, part: int | None = 0) -> Samples:
        """Return the batches of a part, or of all parts, each with at most a row group."""
        every = 1 if part is None else self.batching.num_parts
        chunks, sized, ended = tee(islice(self._groups(), part, None, every), 3)
        return Samples(
            (chunk for chunk, _ in chunks),
            (len(chunk) for chunk, _ in sized),
            (offset for _, offset in ended),
        )

    def _groups(self) -> Iterator[tuple[Chunk, int]]:
        """Yield the row groups or windows, or pieces of them, each with its offset."""
        skipped, rows, order = self.resolved_start.row, self.rows, self.order
        for epoch in self.epochs:
            row = 0
            chunks: Iterator[Chunk] = (
                order.chunks(self.bounds, rows, epoch, order.rank, range(len(rows)))
                if order.shuffles
                else iter(order.pieces(self.bounds, rows, epoch, order.rank))
            )
            for chunk in chunks:
                first, size = max(skipped - row, 0), self.batch_size or max(len(chunk), 1)
                for start in range(first, len(chunk), size):
                    used = chunk[start : start + size]
                    yield used, self.offset(epoch, row + start + len(used))
                row += len(chunk)
            skipped = 0

    @property
    def done(self) -> int:
        """Number of rows of the pass that this rank has read when the plan begins."""
        begin = self.resolved_start
        return (begin.epoch - begin.pass_epoch) * self.rows_per_epoch + begin.row

    def ends(self, start: int, stop: int) -> list[int]:
        """Return the rows of the pass at which equal batches end, after `start`, up to `stop`."""
        size = self.even_size
        assert size is not None
        ends = list(range((start // size + 1) * size, stop + 1, size))
        num_epochs = self.batching.num_epochs
        is_last = num_epochs is not None and stop == num_epochs * self.rows_per_epoch
        if is_last and stop % size and not self.batching.drop_last:
            ends.append(stop)
        return ends

    def offset_of_row(self, row: int) -> int:
        """Return the offset of a batch that ends after `row` rows of the pass."""
        epoch = (row - 1) // self.rows_per_epoch
        return self.offset(
            self.resolved_start.pass_epoch + epoch, row - epoch * self.rows_per_epoch
        )
