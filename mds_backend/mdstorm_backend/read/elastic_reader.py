"""Read samples by number in batches, for the elastic order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from mdstorm_backend.base.prefetch import Prefetcher
from mdstorm_backend.base.recorded_work import Cause, work
from mdstorm_backend.format.values.batch import num_rows
from mdstorm_backend.read.batch_reader import check_batch_size
from mdstorm_backend.read.block import Block
from mdstorm_backend.read.block_reader import BlockReader, batches_per_block
from mdstorm_backend.read.decoded_images import reading_samples
from mdstorm_backend.read.id_window import IdWindow
from mdstorm_backend.read.shard import Shard
from mdstorm_backend.read.shards_ahead import ShardsAhead
from mdstorm_backend.read.window import Range


@dataclass(kw_only=True, eq=False)
class ElasticReader(BlockReader):
    """Reads given samples of a dataset in batches; the transform is called with each of them.

    Parameters
    ----------
    ids : numpy.ndarray
        int64, the numbers of the samples in their order. Any may come more than once.
    predownload : int
        Samples whose shards are opened ahead of use.
    **others
        See `BlockReader`.
    """

    ids: npt.NDArray[np.int64] = field(kw_only=False)
    predownload: int = 0

    def __post_init__(self) -> None:
        check_batch_size(self.batch_size)
        if self.drop_last:
            self.ids = self.ids[: len(self.ids) // self.batch_size * self.batch_size]

    def blocks(self) -> Iterator[Block]:
        """Read blocks of whole batches.

        Yields
        ------
        Block
            Its ``counts`` say how many of the samples each batch was made of.
        """
        # Refuses columns that are not there; samples of different columns can be read one by one.
        _ = self.schema
        with (
            self._ahead(self._make_ready) as ahead,
            Prefetcher(self.workers, self.prefetch, self.recorder) as prefetcher,
        ):
            yield from self._filled(self._fill, self._plan(ahead(self._windows())), prefetcher)

    def planned(self) -> Iterator[Block]:
        """Yield what `blocks` would read, unread: they know the `numbers` of their samples.

        While a block is held its shards stay open.
        """
        with self._ahead() as ahead:
            yield from self._plan(window.opened() for window in ahead(self._windows()))

    def _fill(self, block: Block) -> Block:
        block.batch = self._read(block.ranges)
        with reading_samples(block.numbers):
            if self.transform is not None:
                with work(Cause.TRANSFORMS):
                    block.batch = self.transform(block.batch)
                block.sizes = [num_rows(block.batch)]
            if self.images is not None:
                block.batch = self.images(block.batch)
        block.ranges = []
        return block

    def _ahead(self, make_ready: Callable[[Shard], None] | None = None) -> ShardsAhead:
        dataset = self.dataset

        def open_shard(number: int) -> Shard:
            shard = (dataset.shard if make_ready is None else dataset.begin_shard)(number)
            shard.will_need()
            if make_ready is not None:
                make_ready(shard)
            return shard

        return ShardsAhead(
            open_shard,
            dataset.find_open,
            self.predownload if self.workers else 0,
            threads=self.workers > 0 and not dataset.is_mapped,
            recorder=self.recorder,
        )

    def _plan(self, windows: Iterable[IdWindow]) -> Iterator[Block]:
        for window in windows:
            rows = len(window)
            sizes = [self.batch_size] * (rows // self.batch_size)
            if rows % self.batch_size:
                sizes.append(rows % self.batch_size)
            yield Block(sizes, counts=list(sizes), ranges=[Range(window, 0, rows)])

    def _windows(self) -> Iterator[IdWindow]:
        """Cut the samples into blocks of 1, 2, 4 … batches, so that the first one is soon there."""
        most = 1
        if self.transform is None:
            most = batches_per_block(self.dataset, self.block_rows, self.batch_size)
        batches, start = 1, 0
        while start < len(self.ids):
            stop = start + min(batches, most) * self.batch_size
            yield IdWindow(self.ids[start:stop], self.dataset.bounds)
            batches, start = batches * 2, stop
