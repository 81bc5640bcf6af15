"""Read samples by number in batches, for the elastic order."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from mdstorm_backend.base.prefetch import Prefetcher
from mdstorm_backend.base.recorded_work import Cause, work
from mdstorm_backend.base.recorder import Recorder
from mdstorm_backend.format.values.batch import Batch, num_rows
from mdstorm_backend.order.shares import ceil_div
from mdstorm_backend.read.batch_reader import check_batch_size
from mdstorm_backend.read.block import Block, Transform
from mdstorm_backend.read.block_reader import BLOCK_ROWS, BlockFiller, copied_ahead
from mdstorm_backend.read.decoded_images import ImageDecoder, reading_samples
from mdstorm_backend.read.id_window import IdWindow
from mdstorm_backend.read.shard import Shard
from mdstorm_backend.read.shards_ahead import OpeningWindow, ShardsAhead
from mdstorm_backend.read.source import SampleSource
from mdstorm_backend.read.window import Range


class ElasticReader:
    """Reads given samples of a dataset in batches.

    Parameters
    ----------
    dataset : SampleSource
        What to read: a dataset, or several as one.
    ids : numpy.ndarray
        int64, the numbers of the samples in their order. Any may come more than once.
    batch_size : int
        Rows of a batch; only the last one may be shorter.
    columns : sequence of str or None
        Which columns, in which order; None for all.
    transform : Transform, optional
        Called with the rows of each batch; may return any number of rows.
    prepare : callable, optional
        Called with rows as they are read, before the transform; must keep their number.
    exact_nulls : bool
        Deliver nulls of floating-point columns as nulls, not as NaN.
    images : ImageDecoder, optional
        Decodes images, after the transform.
    workers : int
        Threads that decode and transform ahead of use; 0 does everything in the caller's thread.
    prefetch : int
        Blocks that may be ready ahead of use; memory grows with it.
    predownload : int
        Samples whose shards are opened ahead of use.
    block_rows : int
        Rows of a block, rounded to whole batches.
    drop_last : bool
        Deliver full batches only.
    recorder : Recorder, optional
        Records what is done, and what the consumer waits for.
    """

    def __init__(
        self,
        dataset: SampleSource,
        ids: npt.NDArray[np.int64],
        *,
        batch_size: int,
        columns: Sequence[str] | None = None,
        transform: Transform | None = None,
        prepare: Callable[[Batch], Batch] | None = None,
        exact_nulls: bool = False,
        images: ImageDecoder | None = None,
        workers: int = 2,
        prefetch: int = 4,
        predownload: int = 0,
        block_rows: int = BLOCK_ROWS,
        drop_last: bool = False,
        recorder: Recorder | None = None,
    ) -> None:
        check_batch_size(batch_size)
        self.batch_size = batch_size
        self._dataset = dataset
        self._ids = ids[: len(ids) // batch_size * batch_size] if drop_last else ids
        self._columns = columns
        self._prepare = prepare
        self._exact_nulls = exact_nulls
        self._images = images
        self._transform = transform
        self._workers = workers
        self._prefetch = prefetch
        self._predownload = predownload
        self._block_rows = block_rows
        self._recorder = recorder

    def __len__(self) -> int:
        """Batches."""
        return ceil_div(len(self._ids), self.batch_size)

    def blocks(self) -> Iterator[Block]:
        """Read blocks of whole batches.

        Yields
        ------
        Block
            Its ``counts`` say how many of the samples each batch was made of.
        """
        # Only here: samples of different columns can be read one by one.
        schema = self._dataset.schema.select(self._dataset.select(self._columns))
        filler = BlockFiller(schema, self._prepare, exact_nulls=self._exact_nulls)

        def fill(planned: tuple[Block, OpeningWindow]) -> Block:
            block, window = planned
            whole = Range(window.opened(), 0, len(window))
            block.batch = filler.read([whole])
            with reading_samples(Block(ranges=[whole]).numbers):
                if self._transform is not None:
                    with work(Cause.TRANSFORMS):
                        block.batch = self._transform(block.batch)
                    block.sizes = [num_rows(block.batch)]
                if self._images is not None:
                    block.batch = self._images(block.batch)
            return block

        with (
            self._ahead(filler.make_ready) as ahead,
            Prefetcher(self._workers, self._prefetch, self._recorder) as prefetcher,
        ):
            plan = self._plan(ahead)
            if self._transform is None and filler.only_copies:
                yield from copied_ahead(fill, plan, self._workers, self._recorder)
            else:
                yield from prefetcher.map(fill, plan)

    def planned(self) -> Iterator[Block]:
        """Yield what `blocks` would read, unread: they know the `numbers` of their samples.

        While a block is held its shards stay open.
        """
        with self._ahead() as ahead:
            for block, window in self._plan(ahead):
                block.ranges = [Range(window.opened(), 0, len(window))]
                yield block

    def _ahead(self, make_ready: Callable[[Shard], None] | None = None) -> ShardsAhead:
        dataset = self._dataset

        def open_shard(number: int) -> Shard:
            shard = (dataset.shard if make_ready is None else dataset.begin_shard)(number)
            shard.will_need()
            if make_ready is not None:
                make_ready(shard)
            return shard

        return ShardsAhead(
            open_shard,
            dataset.find_open,
            self._predownload if self._workers else 0,
            threads=self._workers > 0 and not dataset.is_mapped,
            recorder=self._recorder,
        )

    def _plan(self, ahead: ShardsAhead) -> Iterator[tuple[Block, OpeningWindow]]:
        for window in ahead(self._windows()):
            rows = len(window)
            sizes = [self.batch_size] * (rows // self.batch_size)
            if rows % self.batch_size:
                sizes.append(rows % self.batch_size)
            yield Block(sizes=sizes, counts=list(sizes)), window

    def _windows(self) -> Iterator[IdWindow]:
        """Cut the samples into blocks of 1, 2, 4 … batches, so that the first one is soon there."""
        most = 1 if self._transform is not None else self._batches_per_block()
        batches, start = 1, 0
        while start < len(self._ids):
            stop = start + min(batches, most) * self.batch_size
            yield IdWindow(self._ids[start:stop], self._dataset.bounds)
            batches, start = batches * 2, stop

    def _batches_per_block(self) -> int:
        return BlockFiller.batches_per_block(self._dataset, self._block_rows, self.batch_size)
