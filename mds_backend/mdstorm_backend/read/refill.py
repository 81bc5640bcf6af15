"""`Refill`: cuts the rows returned by a transform into batches.

A transform that may drop rows is called with slices of the parts of shards that a rank reads, ahead
of use. The rows that it returns for some slices form a *window*, within which they are shuffled.
Batches are filled with the rows of one window after the other. If all ranks must have the same
number of batches, rows are spread over batches that are planned by the stored rows: a group of
windows gets as many batches as would end within it if every row were kept.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice, pairwise
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from mdstorm_backend.format import Batch, slice_batch
from mdstorm_backend.order import RowPlan
from mdstorm_backend.read.block import Block, Located
from mdstorm_backend.read.gather_rows import gather_columns
from mdstorm_backend.read.sample_source import SampleSource
from mdstorm_backend.read.shard import MemoryShard, warn_no_data
from mdstorm_backend.read.window_groups import WindowGroup, window_groups

#: Stored bytes in each shard slice that is passed to a transform.
SLICE_BYTES = 4 << 20

#: Returns the batch cached under a name, or calls the function to make it.
Keep: TypeAlias = Callable[[str, Callable[[], Batch]], Batch]
#: Reads and transforms slices ahead of use.
Transformed: TypeAlias = Callable[[Iterable[range]], Iterator[MemoryShard]]


class _CutBatch(NamedTuple):
    """A batch.

    Attributes
    ----------
    parts : list of Located
        Its rows; a batch without rows has a row that provides the types.
    size : int
        The number of its rows.
    offset : int
        Its offset in the plan.
    """

    parts: list[Located]
    size: int
    offset: int


@dataclass(frozen=True, eq=False)
class Refill:
    """Cuts the rows that a transform returns into the batches of a plan.

    Attributes
    ----------
    plan : RowPlan
        The plan that is read; its beginning may be the position of an earlier batch.
    dataset : SampleSource
        The dataset.
    slices : bool
        Call the transform with slices of about 4 MiB: threads share a shard, and the first batch
        is ready with the first slice. Slices do not depend on the batch size, so a state can be
        resumed with a different one.
    keep : callable, optional
        A cache: called with the name of each part or slice and a function that reads and
        transforms it; returns the function's result, or the batch cached under that name.
    """

    plan: RowPlan
    dataset: SampleSource
    slices: bool = False
    keep: Keep | None = None

    def blocks(self, transformed: Transformed, part: int, most: int) -> Iterator[Block]:
        """Yield one part's batches in blocks of 1, 2, 4 … batches, at most `most`."""
        batches, largest = 1, most if self.plan.batch_size is not None else 1
        batches_of = self._packed if self.plan.even_size is None else self._spread
        mine = islice(batches_of(transformed), part, None, self.plan.batching.num_parts)
        while together := list(islice(mine, min(batches, largest))):
            sizes, offsets = [one.size for one in together], [one.offset for one in together]
            has_rows = any(sizes)
            used = (one.parts for one in together if one.size or not has_rows)
            yield Block(sizes, offsets, list(chain.from_iterable(used)))
            batches *= 2

    def _packed(self, transformed: Transformed) -> Iterator[_CutBatch]:
        """Pack the rows into full batches, which may span windows and epochs."""
        parts: list[Located] = []
        begin, size = self.plan.resolved_start, self.plan.batch_size
        missing, offset, by_shard = size, 0, self.plan.batching.by_shard
        for window, epoch, first, row in _after(self._windows(transformed), begin.epoch, begin.row):
            rows = len(window)
            while first < rows:
                stop = rows if missing is None else min(first + missing, rows)
                parts.append(window[first:stop])
                missing = None if missing is None else missing - stop + first
                first, offset = stop, self.plan.offset(epoch, row - rows + stop)
                if not missing or (by_shard and first == rows):
                    yield _CutBatch(parts, sum(map(len, parts)), offset)
                    parts, missing = [], size
        if parts and not self.plan.batching.drop_last:
            yield _CutBatch(parts, sum(map(len, parts)), offset)

    def _windows(self, transformed: Transformed) -> Iterator[tuple[int, Located]]:
        """Yield the windows of each epoch; stop with a warning after an epoch without rows."""
        for epoch in self.plan.epochs:
            pieces = [self._cut(piece) for piece in self._pieces(epoch)]
            made = transformed(one for slices in pieces for one in slices)
            rows = 0
            for number, shards in enumerate(self._joined(pieces, made)):
                window = self._window(shards, epoch, number)
                rows += len(window)
                yield epoch, window
            if not rows:
                warn_no_data(self.dataset.url, transformed=True)
                return

    def _pieces(self, epoch: int) -> list[range]:
        """Return this rank's part of each shard, in the epoch's order."""
        order = self.plan.order
        return order.pieces(self.plan.bounds, self.plan.rows, epoch, order.rank)

    def _cut(self, piece: range) -> list[range]:
        """Cut a part of a shard into the slices for the transform."""
        if not self.slices:
            return [piece]
        rows = max(SLICE_BYTES * len(self.dataset) // max(self.dataset.nbytes, 1), 1)
        return [piece[first : first + rows] for first in range(0, len(piece), rows)]

    def _joined(
        self, pieces: list[list[range]], made: Iterator[MemoryShard]
    ) -> Iterator[list[MemoryShard]]:
        """Join the transformed slices of whole shard parts into windows."""
        order = self.plan.order
        if not order.shuffles:  # each slice is a window, so rows do not wait for the whole part
            yield from ([shard] for shard in made if shard.num_samples)
            return
        group: list[MemoryShard] = []
        ends, least = order.windows.parts(_sizes(pieces))
        for first, stop in pairwise(chain([0], ends)):
            slices = sum(map(len, pieces[first:stop]))
            group += (shard for shard in islice(made, slices) if shard.num_samples)
            if group and sum(shard.num_samples for shard in group) >= least:
                yield group
                group = []
        if group:
            yield group

    def _window(self, shards: list[MemoryShard], epoch: int, number: int) -> Located:
        """Return the rows of transformed slices, in the order in which they are read."""
        bounds, order = np.cumsum([0] + [shard.num_samples for shard in shards]), self.plan.order
        size = int(bounds[-1])
        is_shuffled = order.shuffles and size > 0
        chosen = order.permutation(size, epoch, order.rank, number) if is_shuffled else range(size)
        window = Located(chosen, bounds)
        window.shards = shards
        return window

    def _spread(self, transformed: Transformed) -> Iterator[_CutBatch]:
        """Spread the rows of each group of windows over the group's batches."""
        plan, done = self.plan, self.plan.done
        planned: deque[WindowGroup] = deque()

        def slices() -> Iterator[range]:
            for group in window_groups(plan, done, self._planned_windows):
                planned.append(group)
                yield from group.slices

        made = transformed(slices())
        while (first := next(made, None)) is not None:
            group, shards = planned.popleft(), chain([first], made)
            windows = [
                self._window(
                    [shard for shard in islice(shards, len(one.slices)) if shard.num_samples],
                    one.epoch,
                    one.number,
                )
                for one in group.windows
            ]
            for (parts, size), end in zip(group.spread(windows), group.ends, strict=True):
                if end > done:
                    yield _CutBatch(parts, size, plan.offset_of_row(end))

    def _planned_windows(self, epoch: int) -> list[list[range]]:
        """Join the slices of shard parts into windows, whose rows are shuffled together."""
        order, pieces = self.plan.order, [self._cut(piece) for piece in self._pieces(epoch)]
        if not order.shuffles:
            return [[one] for slices in pieces for one in slices]
        ends = order.windows.ends(_sizes(pieces))
        return [
            list(chain.from_iterable(pieces[first:stop]))
            for first, stop in pairwise(chain([0], ends))
        ]


def joined(block: Block, names: Sequence[str]) -> Batch:
    """Return the transformed rows of a block, whose parts were cut by a `Refill`."""
    batch = gather_columns(block.parts, names)
    return batch if any(block.sizes) else slice_batch(batch, 0, 0)


def _sizes(pieces: list[list[range]]) -> npt.NDArray[np.int64]:
    """Return the number of rows in each part of a shard, given its slices."""
    return np.array([sum(map(len, slices)) for slices in pieces], np.int64)


def _after(
    windows: Iterator[tuple[int, Located]], begun: int, skipped: int
) -> Iterator[tuple[Located, int, int, int]]:
    """Yield the windows after the first `skipped` rows of the epoch `begun`.

    Each is yielded with its epoch, its first row to use, and the rows of the epoch up to its end.
    """
    epoch, row = begun, 0
    for number, window in windows:
        row = row if number == epoch else 0
        epoch, rows = number, len(window)
        skip = skipped if epoch == begun else 0
        if row + rows > skip:
            yield window, epoch, max(skip - row, 0), row + rows
        row += rows
