"""Read a rank's part of each shard in turn, for passes whose samples cannot be counted.

That is the case if a transform may return any number of rows, or if each batch is one shard or
one window. Only the rank itself knows how far it has read then, and ranks may have different
numbers of batches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import count, islice
from typing import NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from mdstorm_backend.base.recorder import Cause, work
from mdstorm_backend.base.threads import Prefetcher
from mdstorm_backend.errors import TransformError
from mdstorm_backend.format import Batch, slice_batch
from mdstorm_backend.order import Chunk, ExactOrder, ceil_div
from mdstorm_backend.read.block import Block, Located
from mdstorm_backend.read.decoded_images import reading_samples
from mdstorm_backend.read.even_batches import EvenBatches, Group
from mdstorm_backend.read.gather_rows import gather_columns
from mdstorm_backend.read.reader import Reader, batches_per_block, warn_no_data
from mdstorm_backend.read.shard import MemoryShard

#: Stored bytes of the slice of a shard that is passed to a transform.
_SLICE_BYTES = 4 << 20

#: Returns the batch cached under a name, or else calls the function for it.
Keep: TypeAlias = Callable[[str, Callable[[], Batch]], Batch]


class Position(NamedTuple):
    """A point between two batches: the epoch, and the rows of its share that a rank has read."""

    epoch: int = 0
    row: int = 0


class Window(NamedTuple):
    """Rows returned by a transform that are shuffled together; `chosen` is their order."""

    shards: list[MemoryShard]
    bounds: npt.NDArray[np.int64]
    chosen: Chunk


@dataclass(kw_only=True, eq=False)
class PieceReader(Reader):
    """Reads one rank's part of each shard in exact order.

    The transform is called with each part, or slices of it, before shuffling and batching.

    Parameters
    ----------
    order : ExactOrder
        The order and the rank's share of the rows; its seed is fixed.
    num_epochs : int or None
        Passes over the data; None never ends.
    slices : bool
        Call the transform with slices of about 4 MiB: threads share a shard, and the first batch
        is ready with the first slice. Slices do not depend on the batch size, so a state can be
        resumed with another one.
    by_shard : bool
        Make each batch of one shard's part, or one window if the order has windows, whatever the
        batch size.
    keep : callable, optional
        A cache: called with the name of each part or slice and a function that reads and
        transforms it; returns the function's result, or the batch cached under that name.
    even : EvenBatches, optional
        A plan of batches with the same number on every rank, of varying sizes; by default the
        returned rows fill batches of `batch_size`.
    **others
        See `Reader`.
    """

    order: ExactOrder
    num_epochs: int | None = 1
    slices: bool = False
    by_shard: bool = False
    keep: Keep | None = None
    even: EvenBatches | None = None

    def pieces(self, start: Position, first_epoch: int, part: int, parts: int) -> Iterator[Block]:
        """Yield blocks of whole batches; their marks are positions.

        Parameters
        ----------
        start : Position
            Where to begin; a mark of an earlier block resumes exactly after that batch.
        first_epoch : int
            Epoch with which the pass began; `num_epochs` counts from it.
        part, parts : int
            Yield only every `parts`-th batch after the start, beginning with number `part`.
        """
        if not len(self.dataset):
            warn_no_data(self.dataset.url)
            return
        _ = self.schema
        stop = None if self.num_epochs is None else first_epoch + self.num_epochs
        epochs = count(start.epoch) if stop is None else range(start.epoch, stop)
        with (
            self._ahead() as ahead,
            Prefetcher(self.workers, self.prefetch, self.recorder) as prefetcher,
        ):
            if self.transform is None:
                plan = islice(self._shares(epochs, start), part, None, parts)
                fill = partial(self._fill, share_of=prefetcher.share_of)
                yield from prefetcher.map(fill, ahead(plan))
                return

            def make(slices: Iterable[range]) -> Iterator[MemoryShard]:
                """Read and transform slices, ahead of use."""
                bounds = self.dataset.bounds
                blocks = (Block([len(one)], [], [Located(one, bounds)]) for one in slices)
                # Shards of cached slices need not be opened.
                opened = blocks if self.keep is not None else ahead(blocks)
                made: Iterator[MemoryShard] = prefetcher.map(self._transformed, opened)
                return made

            if self.even is not None:
                cut = self._spread(self.even, start, first_epoch, make)
            else:
                windows = self._windows(epochs, make)
                cut = (self._whole if self.by_shard else self._batches)(windows, start)
            yield from prefetcher.map(self._join, self._of_part(cut, part, parts))

    # Without a transform

    def _shares(self, epochs: Iterable[int], start: Position) -> Iterator[Block]:
        """Yield a block with one batch for each part of a shard, or each window."""
        skip, bounds, rows = start.row, self.dataset.bounds, self._rows
        for epoch in epochs:
            row = 0
            chunks: Iterable[Chunk] = (
                self.order.chunks(bounds, rows, epoch, range(len(rows)))
                if self.order.shuffles
                else self.order.pieces(bounds, rows, epoch)
            )
            for chunk in chunks:
                used = chunk[max(skip - row, 0) :]
                row += len(chunk)
                if len(used):
                    yield Block([len(used)], [Position(epoch, row)], [Located(used, bounds)])
            skip = 0

    @property
    def _rows(self) -> range:
        return self.order.rows(len(self.dataset))

    # With a transform

    def _windows(self, epochs: Iterable[int], make: _Make) -> Iterator[tuple[int, Window]]:
        """Yield the windows of each epoch; stop with a warning after an epoch without any row."""
        for epoch in epochs:
            pieces = [
                self._cut(p) for p in self.order.pieces(self.dataset.bounds, self._rows, epoch)
            ]
            made = make(one for cuts in pieces for one in cuts)
            rows = 0
            for number, shards in enumerate(self._groups(map(len, pieces), made)):
                window = self._window(shards, epoch, number)
                rows += len(window.chosen)
                yield epoch, window
            if not rows:
                warn_no_data(self.dataset.url, transformed=True)
                return

    def _window(self, shards: list[MemoryShard], epoch: int, number: int) -> Window:
        bounds = np.cumsum([0] + [shard.num_samples for shard in shards])
        size = int(bounds[-1])
        shuffles = self.order.shuffles
        chosen = self.order.permutation(size, epoch, number) if shuffles else range(size)
        return Window(shards, bounds, chosen)

    def _cut(self, piece: range) -> list[range]:
        """Cut a part of a shard into the slices for the transform."""
        if not self.slices:
            return [piece]
        dataset = self.dataset
        rows = max(_SLICE_BYTES * len(dataset) // max(dataset.nbytes, 1), 1)
        return [piece[first : first + rows] for first in range(0, len(piece), rows)]

    def _transformed(self, block: Block) -> MemoryShard:
        transform, (part,) = self.transform, block.parts
        assert transform is not None
        assert isinstance(part.chunk, range)

        def make() -> Batch:
            if not part.shards:
                part.shards = [self.dataset.shard(number) for number in part.shard_numbers]
            with work(Cause.DECODING):
                batch = self._gather(block.parts)
                batch = batch if self.prepare is None else self.prepare(batch)
            with reading_samples(block.numbers), work(Cause.TRANSFORMS):
                return transform(batch)

        name = f"{part.chunk.start}+{len(part)}"
        return MemoryShard(make() if self.keep is None else self.keep(name, make))

    def _groups(
        self, counts: Iterable[int], made: Iterator[MemoryShard]
    ) -> Iterator[list[MemoryShard]]:
        """Join slices of whole shard parts into windows of at least `order.window` rows."""
        if not self.order.shuffles:  # nothing waits for the rest of a shard
            yield from ([shard] for shard in made if shard.num_samples)
            return
        group: list[MemoryShard] = []
        for slices in counts:
            group += (shard for shard in islice(made, slices) if shard.num_samples)
            if group and sum(shard.num_samples for shard in group) >= self.order.window:
                yield group
                group = []
        if group:
            yield group

    def _whole(self, windows: Iterator[tuple[int, Window]], start: Position) -> Iterator[_Cut]:
        for window, epoch, first, row in _after(windows, start):
            yield [_located(window, first, len(window.chosen))], Position(epoch, row)

    def _batches(self, windows: Iterator[tuple[int, Window]], start: Position) -> Iterator[_Cut]:
        """Cut the rows into batches, which may span windows and epochs."""
        size = self.batch_size
        parts: list[Located] = []
        missing, end = size, start
        for window, epoch, first, stop_row in _after(windows, start):
            rows = len(window.chosen)
            while first < rows:
                stop = min(first + missing, rows)
                parts.append(_located(window, first, stop))
                missing -= stop - first
                first, end = stop, Position(epoch, stop_row - rows + stop)
                if not missing:
                    yield parts, end
                    parts, missing = [], size
        if parts:
            yield parts, end

    def _spread(
        self, even: EvenBatches, start: Position, first_epoch: int, make: _Make
    ) -> Iterator[_Cut]:
        """Spread the transformed rows of each group of slices over the group's batches."""
        size, bounds = even.rows_per_epoch, self.dataset.bounds
        begun = (start.epoch - first_epoch) * size + start.row
        planned: deque[Group] = deque()

        def slices() -> Iterator[range]:
            for group in even.groups(self.order, bounds, self._rows, self._cut, first_epoch, begun):
                planned.append(group)
                for _, _, window in group.windows:
                    yield from window

        made = make(slices())
        while (shard := next(made, None)) is not None:
            group, shards, windows = planned.popleft(), [shard], []
            for epoch, number, window in group.windows:
                shards += islice(made, len(window) - len(shards))
                windows.append(self._window([s for s in shards if s.num_samples], epoch, number))
                shards = []
            for cut, end in zip(_evenly(windows, group), group.ends, strict=True):
                if end > begun:
                    epoch = (end - 1) // size
                    yield cut, Position(first_epoch + epoch, end - epoch * size)

    def _of_part(self, cuts: Iterator[_Cut], part: int, parts: int) -> Iterator[Block]:
        """Join batches into blocks of 1, 2, 4 … batches."""
        # The transform has already been called, so it does not limit the size of a block.
        most = batches_per_block(self.dataset, self.block_rows, self.batch_size)
        most = 1 if self.by_shard else most
        mine, batches = islice(cuts, part, None, parts), 1
        while found := list(islice(mine, min(batches, most))):
            sizes = [sum(map(len, located)) for located, _ in found]
            marks = [mark for _, mark in found]
            yield Block(sizes, marks, [one for located, _ in found for one in located])
            batches *= 2

    def _join(self, block: Block) -> Block:
        assert self.transform is not None
        names, parts = self.transform.columns, block.parts
        with work(Cause.DECODING):
            if sum(block.sizes):
                block.batch = gather_columns(parts, names)
            else:  # the types are only known from a row
                rows = [part.row for part in parts if isinstance(part, _NoRows)]
                block.batch = slice_batch(gather_columns(rows, names), 0, 0)
        if self.images is not None:
            # It is unknown which samples the transformed rows came from.
            with reading_samples(tuple):
                block.batch = self.images(block.batch)
        return self._finished(block)


class _NoRows(Located):
    """The rows of an empty batch, and a row that provides the types."""

    def __init__(self, window: Window, row: Located) -> None:
        super().__init__(range(0), window.bounds)
        self.row = row


_Cut: TypeAlias = tuple[list[Located], Position]
_Make: TypeAlias = Callable[[Iterable[range]], Iterator[MemoryShard]]


def _evenly(windows: list[Window], group: Group) -> Iterator[list[Located]]:
    """Yield the rows of each batch of a group, in the order of its windows."""
    rows, batches = sum(len(window.chosen) for window in windows), len(group.ends)
    read = sum(len(one) for _, _, slices in group.windows for one in slices)
    if rows < min(batches, read):  # a rank may be a row short of a batch of one
        raise TransformError(
            f"the function of a transform returned {rows} rows for {read}, of which "
            f"every rank makes {batches} batches: leave rows out by predicate= or filters=, or "
            "before writing, and not in the function"
        )
    left, first = iter(windows), 0
    window = next(left)
    for number in range(batches):
        missing = ceil_div(rows * (number + 1), batches) - ceil_div(rows * number, batches)
        parts = []
        while missing:
            if first == len(window.chosen):
                window, first = next(left), 0
                continue
            stop = min(first + missing, len(window.chosen))
            parts.append(_located(window, first, stop))
            missing, first = missing - stop + first, stop
        yield parts or [_NoRows(window, _located(window, first - 1, first))]


def _after(
    windows: Iterator[tuple[int, Window]], start: Position
) -> Generator[tuple[Window, int, int, int], None, None]:
    """Yield windows from `start` on: window, epoch, first row to use, rows of the epoch so far."""
    epoch, row = start.epoch, 0
    for number, window in windows:
        row = row if number == epoch else 0
        epoch, rows = number, len(window.chosen)
        skip = start.row if epoch == start.epoch else 0
        if row + rows > skip:
            yield window, epoch, max(skip - row, 0), row + rows
        row += rows


def _located(window: Window, first: int, stop: int) -> Located:
    located = Located(window.chosen[first:stop], window.bounds)
    located.shards = [window.shards[number] for number in located.shard_numbers]
    return located
