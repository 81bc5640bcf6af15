"""Read the rows of a rank in batches, in the exact order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice, repeat
from typing import TypeAlias

from mdstorm_backend.base.integers import is_integer
from mdstorm_backend.base.prefetch import Prefetcher
from mdstorm_backend.base.recorded_work import Cause, work
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.format.values.batch import Batch, num_rows
from mdstorm_backend.order.exact import ExactOrder
from mdstorm_backend.order.history import Remaining, Segment
from mdstorm_backend.order.shares import Place
from mdstorm_backend.read.block import Block
from mdstorm_backend.read.block_reader import BlockReader, batches_per_block
from mdstorm_backend.read.decoded_images import reading_samples
from mdstorm_backend.read.gather_rows import gather_columns
from mdstorm_backend.read.row_stream import Position, RowStream
from mdstorm_backend.read.shard import MemoryShard
from mdstorm_backend.read.shards_ahead import OPENING_THREADS
from mdstorm_backend.read.window import Range, Source, Window
from mdstorm_backend.read.window_stream import WindowStream, warn_no_data

_BEGINNING = Position()
#: A block spans about so many epochs at most, so that the first batch of an endless pass over a few
#: rows need not wait for thousands of epochs.
_EPOCHS_PER_BLOCK = 16
#: Bytes of a slice of a shard, as stored, with which a transform is called.
_SLICE_BYTES = 4 << 20

#: Returns what is kept under a name, or else what a function makes.
Keep: TypeAlias = Callable[[str, Callable[[], Batch]], Batch]


@dataclass(kw_only=True, eq=False)
class BatchReader(BlockReader):
    """Reads one rank's rows of a dataset in batches, which span epochs.

    The transform is called with the batch of each shard's share before shuffling and batching. Then
    nothing is promised about the number of batches. With `drop_last` there are as many as the rank
    with the fewest rows has.

    Parameters
    ----------
    order : ExactOrder
        In which order, and which share of the rows.
    num_epochs : int or None
        Passes over the data; None never ends.
    slices : bool
        Call the transform with slices of the shares, of about 4 MiB: threads share a shard, and the
        first batch is there as soon as the first slice. They do not depend on the batch size, so
        that a state continues with another one.
    part : tuple of int
        ``(k, n)``: deliver only every n-th batch, beginning with number k after the start. So n
        processes read one sequence of batches together.
    by_shard : bool
        A batch is one shard's share of the rows, or one window where the order has windows,
        whatever the batch size. Then nothing is promised about the number of batches.
    keep : callable, optional
        Called with a name for each share that the transform is called with, and a function that
        reads and transforms it; returns what that returns, or what it has kept under that name.
    **others
        See `BlockReader`.
    """

    order: ExactOrder = field(kw_only=False)
    num_epochs: int | None = 1
    slices: bool = False
    part: tuple[int, int] = (0, 1)
    by_shard: bool = False
    keep: Keep | None = None

    def __post_init__(self) -> None:
        check_batch_size(self.batch_size)
        check_num_epochs(self.num_epochs)
        self.order = self.order.resolved()
        dataset = self.dataset
        slice_rows = max(_SLICE_BYTES * len(dataset) // max(dataset.nbytes, 1), 1)
        _ = self.schema  # refuses columns that are not there
        self._stream = WindowStream(
            dataset,
            self.order,
            None if self.transform is None else self._transformed,
            make_ready=self._make_ready,
            slice_rows=slice_rows if self.slices else None,
        )
        first, last = self.order.rows(len(dataset))
        self.rows_per_epoch = last - first
        most_rows = min(self.block_rows, _EPOCHS_PER_BLOCK * self.rows_per_epoch)
        self._batches_per_block = batches_per_block(dataset, most_rows, self.batch_size)

    def __len__(self) -> int:
        """Batches of a whole pass, or of what its order leaves of one; the same on every rank.

        Raises
        ------
        TypeError
            If epochs are infinite, or a transform may drop rows.
        """
        if self.transform is not None:
            raise TypeError("the number of batches is not known: a transform may drop rows")
        if self.num_epochs is None:
            raise TypeError("the number of batches is not known: num_epochs=None never ends")
        return self.remaining(0).num_batches(self.segment(0))

    def remaining(self, first_epoch: int) -> Remaining:
        """Return what there was to read when the order began.

        Without a history that is a whole pass that begins with `first_epoch`.
        """
        num_rows, history = len(self.dataset), self.order.history
        if history is not None:
            return history.remaining(num_rows)
        stop_epoch = None if self.num_epochs is None else first_epoch + self.num_epochs
        return Remaining(num_rows, first_epoch, stop_epoch)

    def segment(self, batches: int) -> Segment:
        """Return the part of a pass that this reader has read after so many batches."""
        order = self.order
        return Segment(
            order.world_size, self.batch_size, batches, self.drop_last, order.padded_to > 0
        )

    def is_over(self, position: Position, first_epoch: int) -> bool:
        """Whether a pass that began with `first_epoch` has delivered its last batch, surely."""
        if self.transform is not None or self.num_epochs is None:
            return False
        if self.by_shard:
            last = first_epoch + self.num_epochs - 1
            return position.epoch == last and position.row >= self.rows_per_epoch
        return position.batches >= len(self)

    def __iter__(self) -> Iterator[Batch]:
        for block in self.blocks():
            yield from block.batches()

    def blocks(self, start: Position = _BEGINNING, first_epoch: int = 0) -> Iterator[Block]:
        """Read blocks of whole batches.

        Parameters
        ----------
        start : Position
            Where to begin; an `ends` entry of an earlier block continues exactly there.
        first_epoch : int
            Number of the epoch with which the pass began: `num_epochs` counts from it.
        """
        if not len(self.dataset):
            warn_no_data(self.dataset.url)
            return
        with self._pool(self.workers) as prefetcher, self._pool(self._openers) as opener:
            plan = self._plan(start, first_epoch, prefetcher, opener)
            yield from self._filled(self._fill, plan, prefetcher)

    def planned(self, start: Position = _BEGINNING, first_epoch: int = 0) -> Iterator[Block]:
        """Yield what `blocks` would read, unread: they know the `numbers` of their samples.

        While a block is held its shards stay open. Not for a reader with a transform, whose rows
        have no numbers.
        """
        if not len(self.dataset):
            warn_no_data(self.dataset.url)
            return
        self._stream.open_shard = self.dataset.shard
        with self._pool(self.workers) as prefetcher, self._pool(self._openers) as opener:
            yield from self._plan(start, first_epoch, prefetcher, opener)

    def _pool(self, threads: int) -> Prefetcher:
        return Prefetcher(threads, self.prefetch, self.recorder)

    @property
    def _openers(self) -> int:
        """Threads that only open shards, of which many can wait for a network."""
        wait = self.workers and self.dataset.bytes_ahead and self.keep is None
        return OPENING_THREADS if wait else 0

    def _fill(self, block: Block) -> Block:
        if self.transform is None:
            block.batch = self._read(block.ranges)
        else:
            with work(Cause.DECODING):
                block.batch = gather_columns(block.ranges, self.transform.columns)
        if self.images is not None:
            # Nobody knows which samples a transform's rows are.
            with reading_samples(block.numbers if self.transform is None else tuple):
                block.batch = self.images(block.batch)
        block.ranges = []
        return block

    def _transformed(self, first: int, rows: int, open_source: Callable[[], Source]) -> Source:
        transform = self.transform
        assert transform is not None

        def make() -> Batch:
            whole = Range(Window([open_source()], None), 0, rows)
            batch = self._read([whole])
            with reading_samples(lambda: range(first, first + rows)), work(Cause.TRANSFORMS):
                return transform(batch)

        batch = make() if self.keep is None else self.keep(f"{first}+{rows}", make)
        return Source(MemoryShard(batch), 0, num_rows(batch))

    def _plan(
        self, start: Position, first_epoch: int, prefetcher: Prefetcher, opener: Prefetcher
    ) -> Iterator[Block]:
        """Cut the stream of windows into batches, and those into blocks of 1, 2, 4 … batches."""
        stop_epoch = None if self.num_epochs is None else first_epoch + self.num_epochs
        openers = opener if self._openers else None
        windows = self._stream.windows(start, stop_epoch, prefetcher, openers)
        part, parts = self.part
        if self.by_shard:
            yield from islice(_whole_windows(windows, start), part, None, parts)
            return
        stream = RowStream(windows, start)
        block, most = Block(), 1
        for size in self._sizes(start, first_epoch):
            mine = (stream.position.batches - start.batches) % parts == part
            num_taken = stream.take(size, block.ranges if mine else [])
            if num_taken == 0 < size:
                break
            if mine:
                block.sizes.append(num_taken)
                block.ends.append(stream.position)
            if len(block.sizes) == most:
                yield block
                block, most = Block(), min(2 * most, self._batches_per_block)
            if num_taken < size:
                break
        if block.sizes:
            yield block

    def _sizes(self, start: Position, first_epoch: int) -> Iterator[int]:
        if self.num_epochs is None or self.transform is not None:
            return repeat(self.batch_size)
        if self.drop_last:
            return repeat(self.batch_size, len(self) - start.batches)
        rows = self.remaining(first_epoch).rows_of(self.order.rank, self.order.split)
        left = (rows.total or 0) - rows.before(Place(start.epoch, start.row))
        return self.order.split.batch_sizes(left, len(self) - start.batches, self.batch_size)


def _whole_windows(
    windows: Iterator[tuple[int, int, int, Window]], start: Position
) -> Iterator[Block]:
    """Make a block of each window, with one batch."""
    position = start
    for epoch, first_row, stop_row, window in windows:
        before = position.row if epoch == position.epoch else 0
        rows = stop_row - first_row
        position = Position(epoch, before + rows, position.batches + 1)
        yield Block([rows], [position], ranges=[Range(window, first_row, stop_row)])


def check_batch_size(batch_size: object) -> None:
    """Raise InvalidArgumentError unless `batch_size` is a positive integer."""
    if not is_integer(batch_size) or batch_size < 1:
        raise InvalidArgumentError(
            f"batch_size must be a positive number of rows, found {batch_size!r}"
        )


def check_num_epochs(num_epochs: object) -> None:
    """Raise InvalidArgumentError unless `num_epochs` is a positive integer or None."""
    if num_epochs is not None and not (is_integer(num_epochs) and num_epochs >= 1):
        raise InvalidArgumentError(
            f"iterations must be positive integer or None, found num_epochs={num_epochs!r}"
        )
