"""What readers in any order have in common: blocks of whole batches, filled in threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from mdstorm_backend.base.cached_property import cached_property
from mdstorm_backend.base.prefetch import Prefetcher
from mdstorm_backend.base.recorded_work import Cause, work
from mdstorm_backend.base.recorder import Recorder
from mdstorm_backend.format.schema import Schema
from mdstorm_backend.format.values.batch import Batch
from mdstorm_backend.read.block import Block, Transform
from mdstorm_backend.read.decoded_images import ImageDecoder
from mdstorm_backend.read.gather_rows import Gatherer
from mdstorm_backend.read.shard import Shard
from mdstorm_backend.read.source import SampleSource
from mdstorm_backend.read.window import Range

#: A block has about so many rows, or bytes if that is less, but at least one batch.
BLOCK_ROWS = 65536
_BLOCK_BYTES = 8 << 20
#: A block of a wide table has more, so that a column has enough values for what it costs by itself.
_COLUMN_BYTES = 16 << 10
_WIDE_BLOCK_BYTES = 64 << 20


@dataclass(kw_only=True, eq=False)
class BlockReader:
    """Reads blocks of whole batches; the order is for its subclasses to say.

    Parameters
    ----------
    dataset : SampleSource
        What to read: a dataset, or several as one.
    batch_size : int
        Rows of a batch; only the last one of all may be shorter.
    columns : sequence of str or None
        Which columns, in which order; None for all.
    transform : Transform, optional
        Called with rows of the dataset; may return any number of rows.
    prepare : callable, optional
        Called with rows as they are read, before the transform; must keep their number.
    exact_nulls : bool
        Deliver nulls of floating-point columns as nulls, not as NaN.
    images : ImageDecoder, optional
        Decodes images, after the transform and the shuffling.
    workers : int
        Threads that decode and transform ahead of use; 0 does everything in the caller's thread.
    prefetch : int
        Blocks that may be ready ahead of use; memory grows with it.
    block_rows : int
        Rows of a block at most, rounded to whole batches.
    drop_last : bool
        Deliver full batches only.
    recorder : Recorder, optional
        Records what is done, and what the consumer waits for.
    """

    dataset: SampleSource = field(kw_only=False)
    batch_size: int
    columns: Sequence[str] | None = None
    transform: Transform | None = None
    prepare: Callable[[Batch], Batch] | None = None
    exact_nulls: bool = False
    images: ImageDecoder | None = None
    workers: int = 2
    prefetch: int = 4
    block_rows: int = BLOCK_ROWS
    drop_last: bool = False
    recorder: Recorder | None = None

    @cached_property
    def schema(self) -> Schema:
        """The columns that are read, as they are stored."""
        return self.dataset.schema.select(self.dataset.select(self.columns))

    @cached_property
    def _gather(self) -> Gatherer:
        return Gatherer(self.schema, exact_nulls=self.exact_nulls)

    def _make_ready(self, shard: Shard) -> None:
        """Do ahead of `_read` what takes more than copying."""
        with work(Cause.DECODING):
            shard.make_ready(self.schema.names, exact_nulls=self.exact_nulls)

    def _read(self, ranges: Sequence[Range]) -> Batch:
        """Return the rows of `ranges`, one after the other."""
        with work(Cause.DECODING):
            batch = self._gather(ranges)
            return batch if self.prepare is None else self.prepare(batch)

    def _filled(
        self, fill: Callable[[Block], Block], plan: Iterator[Block], prefetcher: Prefetcher
    ) -> Iterator[Block]:
        """Fill blocks ahead of use."""
        only_copies = self.prepare is None and all(column.is_numpy() for column in self.schema)
        if self.transform is None and only_copies:
            return copied_ahead(fill, plan, self.workers, self.recorder)
        return prefetcher.map(fill, plan)


def batches_per_block(dataset: SampleSource, rows: int, batch_size: int) -> int:
    """Whole batches of a block that is to have about `rows` rows."""
    per_row = max(dataset.nbytes // max(len(dataset), 1), 1)
    wide = min(_COLUMN_BYTES * len(dataset.schema), _WIDE_BLOCK_BYTES)
    return max(1, min(rows, max(_BLOCK_BYTES, wide) // per_row) // batch_size)


def copied_ahead(
    fill: Callable[[Block], Block],
    plan: Iterator[Block],
    workers: int,
    recorder: Recorder | None = None,
) -> Iterator[Block]:
    """Fill blocks whose rows are no more than copied, one of them ahead of use.

    One thread does it, however many `workers` there may be: more of them would wait for the
    interpreter's lock rather than copy. Without any it is done here, as it is for the first block,
    which so does not wait for the plan of another.
    """
    with Prefetcher(0, 1, recorder) as here:
        yield from here.map(fill, islice(plan, 1))
    with Prefetcher(min(workers, 1), 2, recorder) as thread:
        yield from thread.map(fill, plan)
