"""Read chunks of samples as blocks of whole batches, filled by threads ahead of use."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any
from weakref import WeakValueDictionary

from mdstorm_backend.base import cached_property, is_integer
from mdstorm_backend.base.recorder import Cause, Recorder, work
from mdstorm_backend.base.work_ahead import WorkAhead, next_priority
from mdstorm_backend.errors import CorruptDatasetError, InvalidArgumentError
from mdstorm_backend.format import Batch, Schema, num_rows
from mdstorm_backend.order import Chunk, Samples
from mdstorm_backend.order.chunk import RowsOnDemand
from mdstorm_backend.read.block import Block, Located, Opened, Transform, check_kept
from mdstorm_backend.read.damage import Damage, OnCorrupt, leave_out_rows
from mdstorm_backend.read.decoded_images import ImageDecoder, reading_samples
from mdstorm_backend.read.file_reader import THREADS as FILE_THREADS
from mdstorm_backend.read.file_reader import FileReader
from mdstorm_backend.read.gather_rows import Gatherer
from mdstorm_backend.read.late import default_workers
from mdstorm_backend.read.refill import Keep, Refill, joined
from mdstorm_backend.read.sample_source import SampleSource
from mdstorm_backend.read.shard import MemoryShard, Shard, warn_no_data
from mdstorm_backend.read.stacking import Output, arranged

#: A block has up to this many rows or bytes, whichever is less, but at least one batch.
BLOCK_ROWS = 65536
BLOCK_BYTES = 8 << 20
#: Tables of at most this many bytes are read in the caller's thread, if they need only be copied.
SMALL = 2 << 20
#: Small tables with at most this many shards are read in one block.
_SHARDS_AT_ONCE = 16
#: Blocks of a wide table are larger, to amortise the cost per column.
COLUMN_BYTES = 16 << 10
_WIDE_BLOCK_BYTES = 64 << 20


@dataclass(kw_only=True, eq=False)
class Reader:
    """Reads samples of a dataset by number.

    Parameters
    ----------
    dataset : SampleSource
        The data to read: a dataset, or several as one.
    batch_size : int
        Rows of a batch.
    columns : sequence of str or None
        The columns to read, in this order; None for all.
    transform : Transform, optional
        Called with the rows of a batch, or of many batches if it `keeps_rows`.
    prepare : callable, optional
        Called with the rows as read, before the transform; must keep their number.
    exact_nulls : bool
        Return nulls of floating-point columns as nulls, not as NaN.
    images : ImageDecoder, optional
        Decodes images, after the transform and the shuffling; those that the transform changes are
        decoded by the transform itself.
    files : FileReader, optional
        Reads files, after the filters and the shuffling; the transform itself reads those that it
        changes, unless they have been read.
    outputs : sequence of Output, optional
        The entries of a batch, by default all columns.
    workers : int
        Threads that decode and transform ahead of use; with 0 the caller's thread does everything.
    prefetch : int
        Blocks that may be ready ahead of use; memory grows with it.
    block_rows : int
        Maximum number of rows in a block, rounded to whole batches.
    sends : bool
        Whether blocks are sent to another process, so that the first one should be small.
    samples_ahead : int
        Samples whose shards are opened ahead of use.
    on_corrupt : {"raise", "skip"}
        Whether a damaged sample is an error or is left out of its batch.
    recorder : Recorder, optional
        Records the work done, and the causes of the consumer's waits.
    """

    dataset: SampleSource
    batch_size: int
    columns: Sequence[str] | None = None
    transform: Transform | None = None
    prepare: Callable[[Batch], Batch] | None = None
    exact_nulls: bool = False
    images: ImageDecoder | None = None
    files: FileReader | None = None
    outputs: Sequence[Output] = ()
    workers: int = 2
    prefetch: int = 4
    block_rows: int = BLOCK_ROWS
    sends: bool = False
    samples_ahead: int = 0
    on_corrupt: OnCorrupt = "raise"
    recorder: Recorder | None = None

    def __post_init__(self) -> None:
        check_batch_size(self.batch_size)

    @cached_property
    def schema(self) -> Schema:
        """The stored columns to read."""
        return self._gather.schema

    @cached_property
    def _gather(self) -> Gatherer:
        # The user's functions receive columns rather than matrices.
        has_functions = self.prepare or self.transform or self.images
        outputs = () if has_functions else self.outputs
        return Gatherer.of(
            self.dataset, self.columns, exact_nulls=self.exact_nulls, outputs=outputs
        )

    @cached_property
    def _damage(self) -> Damage:
        return Damage(self.dataset, self.schema.names, self._try)

    def _try(self, parts: Sequence[Located]) -> None:
        """Read samples and decode their stored images, only to check whether that fails."""
        batch = self._gather(parts)
        if self._stored_images is not None:
            with reading_samples(Block(parts=list(parts)).numbers):
                for _, error in self._stored_images.damaged(batch):
                    raise error

    @cached_property
    def _stored_images(self) -> ImageDecoder | None:
        """Decodes the images that are not in files, which have not been read by then."""
        return self.images and self.images.of_stored()

    @cached_property
    def _images_left(self) -> ImageDecoder | None:
        """Decodes the images that the transform leaves encoded."""
        return self.images and self.images.after(self.transform)

    @cached_property
    def _keeps_rows(self) -> bool:
        return self.transform is None or bool(getattr(self.transform, "keeps_rows", False))

    @cached_property
    def _only_copies(self) -> bool:
        """Whether rows only need to be copied."""
        is_read = self.transform is None and self.prepare is None
        return is_read and all(column.is_numpy() for column in self.schema)

    @cached_property
    def _reads_here(self) -> bool:
        """Whether to read in the caller's thread, because starting another would take too long."""
        return self._only_copies and self.dataset.nbytes <= SMALL

    def blocks(self, samples: Samples) -> Iterator[Block]:
        """Yield blocks of whole batches."""
        # Raises an error for missing columns even if nothing is read. `planned` does not, because
        # datasets that return individual samples may have different columns in each sample.
        _ = self.schema
        if not len(self.dataset):
            warn_no_data(self.dataset.url)
            return
        threads, depth = self.workers, self.prefetch
        if self._only_copies:  # several threads would wait for the GIL
            threads, depth = 0 if self._reads_here else min(threads, 1), 2
        blocks = self._cut(samples, self._first_batches)
        with self._openers() as openers, WorkAhead(threads, self.recorder) as readers:
            fill = partial(self._fill, share_of=readers.share_of)
            opened = self._opened(blocks, openers)
            if self.files is not None:
                complete = partial(self._completed, share_of=readers.share_of)
                yield from self._with_files(self.files, opened, self._read, complete, readers)
            else:
                yield from readers.map(fill, opened, depth, first_here=self._only_copies)

    def planned(self, samples: Samples) -> Iterator[Block]:
        """Yield blocks of the same batches as `blocks`, but unread, with only their sample numbers.

        The shards of a block stay open while it is referenced.
        """
        with self._openers() as openers:
            for block in self._opened(self._cut(samples), openers, decodes=False):
                for part in block.parts:
                    _ = part.opened
                yield block

    def refilled(self, refill: Refill, part: int = 0) -> Iterator[Block]:
        """Yield blocks of batches that `refill` cuts from the transform's rows.

        The transform is called with slices of shards, before shuffling and batching.

        Parameters
        ----------
        refill : Refill
            Which slices are read, and how their rows are cut.
        part : int
            The number of the part whose batches are yielded, among the parts in `refill.plan`.
        """
        _ = self.schema
        if not len(self.dataset):
            warn_no_data(self.dataset.url)
            return
        with self._openers() as openers, WorkAhead(self.workers, self.recorder) as readers:

            def transformed(slices: Iterable[range]) -> Iterator[MemoryShard]:
                """Read and transform slices ahead of use."""
                located = self.dataset.located
                blocks = (Block([len(one)], [], [located(one)]) for one in slices)
                # Shards of cached slices need not be opened.
                opened = blocks if refill.keep is not None else self._opened(blocks, openers)
                return readers.map(
                    partial(self._transformed, keep=refill.keep), opened, self.prefetch
                )

            # The transform has already been called, so it does not limit the size of a block.
            cut = refill.blocks(transformed, part, self._most_batches)
            left = self.files and self.files.after(self.transform)
            if left:
                yield from self._with_files(
                    left, cut, self._joined, self._finished_soundly, readers
                )
            else:
                yield from readers.map(self._joined_and_finished, cut, self.prefetch)

    def _with_files(
        self,
        files: FileReader,
        blocks: Iterable[Block],
        read: Callable[[Block], Block],
        finish: Callable[[Block], Block],
        readers: WorkAhead,
    ) -> Iterator[Block]:
        """Apply `read` to blocks, read the files that they name, and apply `finish`."""

        def complete(block: Block) -> Block:
            with reading_samples(block.numbers):
                files.complete(block)
            return finish(block)

        threads = FILE_THREADS if self.workers else 0
        with WorkAhead(threads, self.recorder, name="mdstorm-files") as requests:
            paths = readers.map(read, blocks, self.prefetch)
            ahead = files.ahead(paths, requests, 2 * threads)
            yield from readers.map(complete, ahead, self.prefetch)
        files.check_missing()

    def _transformed(self, block: Block, keep: Keep | None) -> MemoryShard:
        """Read and transform one slice of a shard, unless a cache has the result."""
        (part,) = block.parts
        assert isinstance(part.numbered, range)

        def make() -> Batch:
            if not part.shards:
                part.shards = [self.dataset.shard(number) for number in part.shard_numbers]
            read, leave_out = self._gathered_and_changed, self._damage.leave_out
            return self._without_damage(block, read, leave_out).batch

        name = f"{part.numbered.start}+{len(part)}"
        return MemoryShard(make() if keep is None else keep(name, make))

    def _joined(self, block: Block) -> Block:
        """Join the transformed rows of a block."""
        assert self.transform is not None
        with work(Cause.DECODING):
            block.batch = joined(block, self.transform.columns)
        block.parts = []  # it is unknown which samples the transformed rows came from
        return block

    def _joined_and_finished(self, block: Block) -> Block:
        return self._finished_soundly(self._joined(block))

    def _finished_soundly(self, block: Block, share_of: Callable[[int], int] = int) -> Block:
        """Decode images and make matrices; leave out damaged images with ``"skip"``."""
        finish = partial(self._finished, numbers=block.numbers, share_of=share_of)
        return self._without_damage(block, finish, partial(_leave_out_images, self._images_left))

    @property
    def _first_batches(self) -> int:
        """Number of batches in the first block: all for a small table, which is read quickly."""
        is_soon_ready = self._reads_here and len(self.dataset.shard_sizes) <= _SHARDS_AT_ONCE
        return -(-len(self.dataset) // self.batch_size) if is_soon_ready and not self.sends else 1

    @property
    def _most_batches(self) -> int:
        """Maximum number of batches in a block; 1 with files, whose sizes are not known before."""
        if self.files is not None:
            return 1
        return batches_per_block(self.dataset, self.block_rows, self.batch_size)

    def _cut(self, samples: Samples, first: int = 1) -> Iterator[Block]:
        """Cut the samples into blocks of `first` batches, then twice as many, up to a limit.

        This makes the first block ready soon.
        """
        most = self._most_batches
        dataset, batches, is_first = self.dataset, first, True
        left: Chunk = range(0)
        kept: Opened | None = None

        def located(count: int) -> Iterator[Located]:
            nonlocal left, kept
            while count:
                while not len(left):
                    left = next(samples.chunks)
                    # A shuffled window needs its shards repeatedly, so they stay open.
                    kept = {} if isinstance(left, RowsOnDemand) else None
                taken, left = left[:count], left[count:]
                count -= len(taken)
                yield dataset.located(taken, kept, is_first=is_first)

        while sizes := list(islice(samples.sizes, min(batches, most) if self._keeps_rows else 1)):
            offsets = list(islice(samples.offsets, len(sizes)))
            # No variable refers to the parts, so that they are freed with the block.
            yield Block(sizes, offsets, list(located(sum(sizes))))
            batches, is_first = 2 * batches, False

    def _read(self, block: Block) -> Block:
        return self._without_damage(block, self._gathered, self._damage.leave_out)

    def _completed(self, block: Block, share_of: Callable[[int], int]) -> Block:
        """Transform and finish a block whose files have been read."""
        if self.transform is not None:
            self._without_damage(block, self._changed, partial(_leave_out_images, self.images))
            block.sizes = [num_rows(block.batch)]  # of the only batch
        return self._finished_soundly(block, share_of)

    def _fill(self, block: Block, share_of: Callable[[int], int]) -> Block:
        read = partial(self._filled, share_of=share_of)
        return self._without_damage(block, read, self._damage.leave_out)

    def _without_damage(
        self, block: Block, read: Callable[[Block], Block], leave_out: Callable[[Block], None]
    ) -> Block:
        """Return ``read(block)``; with ``"skip"``, leave out what is damaged if that fails."""
        try:
            return read(block)
        except CorruptDatasetError:
            if self.on_corrupt == "raise":
                raise
        with work(Cause.DECODING):
            leave_out(block)
        return read(block)

    def _filled(self, block: Block, share_of: Callable[[int], int]) -> Block:
        self._gathered(block)
        if self.transform is not None:
            self._changed(block)
            if len(block.sizes) == 1:
                block.sizes = [num_rows(block.batch)]
        return self._finished(block, block.numbers, share_of)

    # The stages, each of which changes a block's batch

    def _gathered(self, block: Block) -> Block:
        with work(Cause.DECODING):
            block.batch = self._gather(block.parts)
            if self.prepare is not None:
                block.batch = self.prepare(block.batch)
        return block

    def _changed(self, block: Block) -> Block:
        assert self.transform is not None
        given = num_rows(block.batch)
        with reading_samples(block.numbers), work(Cause.TRANSFORMS):
            block.batch = self.transform(block.batch)
        if self._keeps_rows and not (self.files and self.files.skips):
            check_kept(given, num_rows(block.batch))
        return block

    def _gathered_and_changed(self, block: Block) -> Block:
        return self._changed(self._gathered(block))

    def _finished(
        self,
        block: Block,
        numbers: Callable[[], Sequence[int]],
        share_of: Callable[[int], int] = int,
    ) -> Block:
        """Decode images and make matrices."""
        if self._images_left is not None:
            with reading_samples(numbers):
                block.batch = self._images_left(block.batch, share_of(default_workers()))
        if self.outputs:
            block.batch = arranged(block.batch, self.outputs)
        block.parts = []
        return block

    def _openers(self) -> WorkAhead:
        """Return the threads that open shards; none if opening only maps a file."""
        threads = OPENING_THREADS if self.workers and not self.dataset.is_mapped else 0
        return WorkAhead(threads, self.recorder, name="mdstorm-open")

    def _opened(
        self, blocks: Iterable[Block], openers: WorkAhead, *, decodes: bool = True
    ) -> Iterator[Block]:
        """Open the blocks' shards ahead of use, and decode them if `decodes`."""
        dataset = self.dataset

        def open_shard(number: int) -> Shard:
            if self.on_corrupt == "skip":
                self._damage.check_shard(number)
            shard = (dataset.begin_shard if decodes else dataset.shard)(number)
            shard.will_need()
            if decodes:
                with work(Cause.DECODING):
                    shard.make_ready(self.schema.names, exact_nulls=self.exact_nulls)
            return shard

        # Without the limit, an endless pass over a small table would plan hundreds of epochs for
        # its first batch.
        ahead = min(self.samples_ahead, len(dataset)) if self.workers else 0
        return open_ahead(blocks, open_shard, dataset.find_open, ahead, openers)


#: Threads that open shards; they mostly wait for a disk or a network.
OPENING_THREADS = 64
#: No further shards are requested while this many are being opened, or once this many have been
#: mapped since the last block was yielded.
_MANY = 64
_MANY_MAPPED = 32


def open_ahead(
    blocks: Iterable[Block],
    open_shard: Callable[[int], Shard],
    find_open: Callable[[int], Shard | None],
    ahead: int,
    openers: WorkAhead,
) -> Iterator[Block]:
    """Yield blocks in order, while the shards of the following ones are being opened.

    Parameters
    ----------
    blocks : iterable of Block
        The blocks, without shards.
    open_shard : callable
        Opens a shard by its number and prepares it for reading.
    find_open : callable
        Returns the shard of a number if it is open, else None.
    ahead : int
        How many samples ahead of use shards are requested.
    openers : WorkAhead
        Opens the shards.
    """
    #: Shards being opened, kept alive by the blocks that wait for them.
    under_way: WeakValueDictionary[int, Future[Any]] = WeakValueDictionary()
    opened = 0

    def begin(number: int, kept: Opened | None, priority: int) -> Shard | Future[Any]:
        nonlocal opened
        found = None if kept is None else kept.get(number)
        found = found or find_open(number) or under_way.get(number)
        if found is None:
            found = openers.begin(open_shard, number, priority)
            if isinstance(found, Future):
                under_way[number] = found
            else:
                opened += 1
        if kept is not None:
            kept[number] = found
        return found

    def are_many() -> bool:
        return opened >= _MANY_MAPPED or (
            len(under_way) >= _MANY and sum(not one.done() for one in under_way.values()) >= _MANY
        )

    waiting: deque[tuple[int, Block]] = deque()
    samples = 0
    for block in blocks:
        priority = next_priority()  # shared by all shards: the block needs them simultaneously
        for part in block.parts:
            part.shards = [begin(number, part.kept, priority) for number in part.shard_numbers]
            part.take = openers.result
        rows = sum(block.sizes)
        waiting.append((rows, block))
        samples += rows
        # Do not wait for many shards, because the first samples should arrive soon.
        while waiting and (samples - waiting[0][0] >= ahead or are_many()):
            rows, first = waiting.popleft()
            samples -= rows
            opened = 0
            yield first
    while waiting:  # blocks are released as they are used
        yield waiting.popleft()[1]


def _leave_out_images(images: ImageDecoder | None, block: Block) -> None:
    """Remove the rows whose images are damaged from a block that has been read."""
    if images is not None:
        leave_out_rows(block, dict(images.damaged(block.batch)))


def batches_per_block(dataset: SampleSource, rows: int, batch_size: int) -> int:
    """Return the number of batches in a block of up to `rows` rows; at least 1."""
    per_row = max(dataset.nbytes // max(len(dataset), 1), 1)
    wide = min(COLUMN_BYTES * len(dataset.schema), _WIDE_BLOCK_BYTES)
    return max(1, min(rows, max(BLOCK_BYTES, wide) // per_row) // batch_size)


def check_batch_size(batch_size: object) -> None:
    """Raise InvalidArgumentError unless `batch_size` is a positive integer."""
    if not is_integer(batch_size) or batch_size < 1:
        raise InvalidArgumentError(
            f"batch_size must be a positive number of rows, found {batch_size!r}"
        )


def check_num_epochs(num_epochs: object) -> None:
    """Raise InvalidArgumentError unless `num_epochs` is a positive integer or None."""
    if num_epochs is not None and not (is_integer(num_epochs) and num_epochs >= 1):
        # The text up to the comma is Petastorm's own.
        raise InvalidArgumentError(
            f"iterations must be positive integer or None, found num_epochs={num_epochs!r}"
        )
