"""Read chunks of samples as blocks of whole batches, read by threads ahead of use."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any
from weakref import WeakValueDictionary

from mdstorm_backend.base import cached_property, is_integer
from mdstorm_backend.base.checks import make_scalars_plain
from mdstorm_backend.base.recorder import Cause, Recorder, work
from mdstorm_backend.base.work_ahead import WorkAhead, next_priority
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.format import Batch
from mdstorm_backend.order import Chunk, Samples
from mdstorm_backend.order.chunk import RowsInTurn, RowsOnDemand
from mdstorm_backend.read.block import Block, Located, OpeningShards
from mdstorm_backend.read.damage import record_skipped
from mdstorm_backend.read.file_reader import THREADS as FILE_THREADS
from mdstorm_backend.read.refill import Keep, Refill
from mdstorm_backend.read.sample_source import SampleSource
from mdstorm_backend.read.shard import MemoryShard, Shard, warn_no_data
from mdstorm_backend.read.stages import Gather, Share, Stage, Stages, run, stages_of
from mdstorm_backend.read.steps import Reading

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
class BlockReader:
    """Reads samples of a dataset by number.

    Parameters
    ----------
    reading : Reading
        The dataset, the columns to read, and the steps until they are batches.
    batch_size : int
        Rows of a batch.
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
    recorder : Recorder, optional
        Records the work done, and the causes of the consumer's waits.
    """

    reading: Reading
    batch_size: int
    workers: int = 2
    prefetch: int = 4
    block_rows: int = BLOCK_ROWS
    sends: bool = False
    samples_ahead: int = 0
    recorder: Recorder | None = None

    def __post_init__(self) -> None:
        check_batch_size(self.batch_size)
        make_scalars_plain(self)
        self.dataset = self.reading.dataset
        self._skip = record_skipped if self.reading.steps.skips else None

    @cached_property
    def _stages(self) -> Stages:
        return stages_of(self.reading, cut=False)

    @cached_property
    def _only_copies(self) -> bool:
        """Whether rows only need to be copied."""
        is_numpy = (column.is_numpy() for column in self._stages.gather.schema)
        return self.reading.only_copies and all(is_numpy)

    @cached_property
    def _reads_here(self) -> bool:
        """Whether to read in the caller's thread, because starting another would take too long."""
        return self._only_copies and self.dataset.nbytes <= SMALL

    def blocks(self, samples: Samples) -> Iterator[Block]:
        """Yield blocks of whole batches."""
        # Raises an error for missing columns even if nothing is read. `planned` does not, because
        # datasets that return individual samples may have different columns in each sample.
        stages = self._stages
        if not len(self.dataset):
            warn_no_data(self.dataset.url)
            return
        threads, depth = self.workers, self.prefetch
        if self._only_copies:  # several threads would wait for the GIL
            threads, depth = 0 if self._reads_here else min(threads, 1), 2
        with self._openers() as openers, WorkAhead(threads, self.recorder) as readers:
            blocks = self._cut(samples, self._first_batches)
            opened = self._with_shards(blocks, openers, stages.gather)
            yield from self._run(stages, opened, readers, depth, first_here=self._only_copies)

    def planned(self, samples: Samples) -> Iterator[Block]:
        """Yield blocks of the same batches as `blocks`, but unread, with only their sample numbers.

        The shards of a block stay open while it is referenced.
        """
        with self._openers() as openers:
            for block in self._with_shards(self._cut(samples), openers, None):
                for part in block.parts:
                    _ = part.opened
                yield block

    def refilled(self, refill: Refill, part: int = 0) -> Iterator[Block]:
        """Yield blocks of batches that `refill` cuts from the rows that functions return.

        Functions are called with slices of shards, before shuffling and batching.

        Parameters
        ----------
        refill : Refill
            Which slices are read, and how their rows are cut.
        part : int
            The number of the part whose batches are yielded, among the parts in `refill.plan`.
        """
        stages = stages_of(self.reading, cut=True)
        if not len(self.dataset):
            warn_no_data(self.dataset.url)
            return
        with self._openers() as openers, WorkAhead(self.workers, self.recorder) as readers:
            make = partial(self._slice, stages.slices, readers.share_of, refill.keep)

            def made(slices: Iterable[range]) -> Iterator[MemoryShard]:
                """Read slices and call functions for them, ahead of use."""
                located = self.dataset.located
                blocks: Iterator[Block]
                blocks = (Block([len(one)], [], [located(one)]) for one in slices)
                # Shards of cached slices need not be opened.
                if refill.keep is None:
                    blocks = self._with_shards(blocks, openers, stages.gather)
                return readers.map(make, blocks, self.prefetch)

            # Functions have already been called, so they do not limit the size of a block.
            blocks = refill.blocks(made, part, self._most_batches)
            yield from self._run(stages, blocks, readers, self.prefetch)

    def _run(
        self,
        stages: Stages,
        blocks: Iterable[Block],
        readers: WorkAhead,
        depth: int,
        *,
        first_here: bool = False,
    ) -> Iterator[Block]:
        """Run the stages of blocks of batches, and request the files that they name ahead."""
        finish = partial(self._finished, stages.contents or stages.batches, readers.share_of)
        files = self.reading.files
        if files is None or not stages.contents:
            yield from readers.map(finish, blocks, depth, first_here=first_here)
        else:
            threads = FILE_THREADS if self.workers else 0
            name_files = partial(run, stages.batches, share=readers.share_of, skips=self._skip)
            with WorkAhead(threads, self.recorder, name="mdstorm-files") as requests:
                named = readers.map(name_files, blocks, depth)
                yield from readers.map(finish, files.ahead(named, requests, 2 * threads), depth)
        if files is not None:
            files.check_missing()

    def _finished(self, stages: Sequence[Stage], share: Share, block: Block) -> Block:
        """Run the last stages of a block, and release its shards."""
        run(stages, block, share, skips=self._skip)
        block.parts = []
        return block

    def _slice(
        self, stages: Sequence[Stage], share: Share, keep: Keep | None, block: Block
    ) -> MemoryShard:
        """Read a slice of a shard and call functions for it, unless a cache has the result."""
        (part,) = block.parts
        assert isinstance(part.numbered, range)

        def make() -> Batch:
            if not part.shards:
                part.shards = [self.dataset.shard(number) for number in part.shard_numbers]
            return run(stages, block, share, skips=self._skip).batch

        name = f"{part.numbered.start}+{len(part)}"
        return MemoryShard(make() if keep is None else keep(name, make))

    @property
    def _first_batches(self) -> int:
        """Number of batches in the first block: all for a small table, which is read quickly."""
        is_soon_ready = self._reads_here and len(self.dataset.shard_sizes) <= _SHARDS_AT_ONCE
        return -(-len(self.dataset) // self.batch_size) if is_soon_ready and not self.sends else 1

    @property
    def _most_batches(self) -> int:
        """Maximum number of batches in a block; 1 with files, whose sizes are not known before."""
        if self.reading.files is not None:
            return 1
        return batches_per_block(self.dataset, self.block_rows, self.batch_size)

    def _cut(self, samples: Samples, first: int = 1) -> Iterator[Block]:
        """Cut the samples into blocks of `first` batches, then twice as many, up to a limit.

        This makes the first block ready soon.
        """
        most = self._most_batches
        dataset, batches, is_first = self.dataset, first, True
        left: Chunk = range(0)
        kept: OpeningShards | None = None

        def located(count: int) -> Iterator[Located]:
            nonlocal left, kept
            while count:
                while not len(left):
                    left = next(samples.chunks)
                    kept = _kept(left, kept or {})
                taken, left = left[:count], left[count:]
                count -= len(taken)
                yield dataset.located(taken, kept, is_first=is_first)

        if not self.reading.steps.keeps_rows:
            most = 1
        while sizes := list(islice(samples.sizes, min(batches, most))):
            offsets = list(islice(samples.offsets, len(sizes)))
            # No variable refers to the parts, so that they are freed with the block.
            yield Block(sizes, offsets, list(located(sum(sizes))))
            batches, is_first = 2 * batches, False

    def _openers(self) -> WorkAhead:
        """Return the threads that open shards; none if opening only maps a file."""
        threads = OPENING_THREADS if self.workers and not self.dataset.is_mapped else 0
        return WorkAhead(threads, self.recorder, name="mdstorm-open")

    def _with_shards(
        self, blocks: Iterable[Block], openers: WorkAhead, gather: Gather | None
    ) -> Iterator[Block]:
        """Open the blocks' shards ahead of use, and prepare them for a stage that reads rows."""
        dataset = self.dataset

        def open_shard(number: int) -> Shard:
            if gather is None:
                shard = dataset.shard(number)
                shard.will_need()
                return shard
            gather.damage.check_shard(number)
            shard = dataset.begin_shard(number)
            shard.will_need()
            with work(Cause.DECODING):
                shard.make_ready(gather.schema.names, exact_nulls=gather.exact_nulls)
            return shard

        # Without the limit, an endless pass over a small table would plan hundreds of epochs for
        # its first batch.
        ahead = min(self.samples_ahead, len(dataset)) if self.workers else 0
        return open_ahead(blocks, open_shard, dataset.find_open, ahead, openers)


def _kept(chunk: Chunk, before: OpeningShards) -> OpeningShards | None:
    """Return where to keep the shards of a chunk that needs them repeatedly, else None.

    Of the chunk before, those shards are kept that are read in turns with others.
    """
    if isinstance(chunk, RowsInTurn):
        return {number: before[number] for number in chunk.shards.tolist() if number in before}
    return {} if isinstance(chunk, RowsOnDemand) else None


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

    def begin(number: int, kept: OpeningShards | None, priority: int) -> Shard | Future[Any]:
        nonlocal opened
        begun = None if kept is None else kept.get(number)
        begun = begun or find_open(number) or under_way.get(number)
        if begun is None:
            begun = openers.begin(open_shard, number, priority)
            if isinstance(begun, Future):
                under_way[number] = begun
            else:
                opened += 1
        if kept is not None:
            kept[number] = begun
        return begun

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
    if num_epochs is not None and not (is_integer(num_epochs) and 1 <= num_epochs <= sys.maxsize):
        # The text up to the comma is Petastorm's own.
        raise InvalidArgumentError(
            f"iterations must be positive integer or None, found num_epochs={num_epochs!r}"
        )
