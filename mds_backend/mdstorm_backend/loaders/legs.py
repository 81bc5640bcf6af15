"""Legs: the stretches of a pass, read in either order."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mdstorm_backend.base.recorder import Recorder
from mdstorm_backend.loaders.elastic_state import EpochStart
from mdstorm_backend.loaders.reader_options import ReaderOptions
from mdstorm_backend.order.exact import ExactOrder
from mdstorm_backend.order.world import World
from mdstorm_backend.read.batch_reader import BatchReader
from mdstorm_backend.read.block import Block
from mdstorm_backend.read.block_reader import BLOCK_ROWS
from mdstorm_backend.read.elastic_reader import ElasticReader
from mdstorm_backend.read.row_stream import Position

if TYPE_CHECKING:
    from typing_extensions import Self

#: Bytes of samples whose shards are opened ahead of use, where that takes no network.
_BYTES_AHEAD = 256 << 20


@dataclass(frozen=True)
class Batching:
    """How a loader makes batches.

    Attributes
    ----------
    batch_size : int
        Rows of a batch.
    drop_last : bool
        Leave out batches that are not full.
    num_workers : int
        Processes that read, 0 for none but the loader's own.
    by_shard : bool
        A batch is one shard's share of the rows, whatever its size. Only the exact order has
        such; in others, and for the state, `batch_size` is that of the largest one.
    """

    batch_size: int
    drop_last: bool = False
    num_workers: int = 0
    by_shard: bool = False


@dataclass(frozen=True)
class Leg(ABC):
    """A stretch of a pass that is read in one go; each worker reads its part. It pickles.

    Attributes
    ----------
    options, batching
        What is read, and how batches are made of it.
    recorder : Recorder or None
        Records its reading in this process; None for nobody.
    """

    options: ReaderOptions
    batching: Batching
    recorder: Recorder | None = field(default=None, kw_only=True)

    def recorded(self, recorder: Recorder | None) -> Self:
        """Return the same stretch, whose reading is recorded."""
        return replace(self, recorder=recorder)

    @property
    @abstractmethod
    def token(self) -> Any:
        """What tells it from the others, in a few plain values: see `Reading.leg`."""

    @abstractmethod
    def blocks(
        self, part: int = 0, *, block_rows: int | None = None, unread: bool = False
    ) -> Iterator[Block]:
        """Read the batches of a part, or only lay them out: see `planned` of the readers."""

    @abstractmethod
    def rest(self, part: int, mark: Any) -> tuple[Leg, int]:
        """Return what follows a batch of a part, by its mark, and the number of the part there."""


@dataclass(frozen=True)
class ExactLeg(Leg):
    """A pass in the exact order from some position on: batches span its epochs."""

    start: Position
    first_epoch: int

    @property
    def token(self) -> tuple[Position, int, ExactOrder]:
        """What tells it from the others."""
        return self.start, self.first_epoch, self.options.exact_order

    def blocks(
        self, part: int = 0, *, block_rows: int | None = None, unread: bool = False
    ) -> Iterator[Block]:
        """Read the batches of a part, or only lay them out."""
        parts = part, max(self.batching.num_workers, 1)
        further = {"part": parts, "recorder": self.recorder}
        reader = batch_reader(self.options, self.batching, block_rows, **further)
        return (reader.planned if unread else reader.blocks)(self.start, self.first_epoch)

    def rest(self, part: int, mark: Position) -> tuple[ExactLeg, int]:
        """Return what follows a batch of a part: the batches of all others come before its own."""
        return replace(self, start=mark), max(self.batching.num_workers, 1) - 1


def batch_reader(
    options: ReaderOptions, batching: Batching, block_rows: int | None = None, **further: Any
) -> BatchReader:
    """Return a reader of this rank's batches; `further` are arguments of `BatchReader`."""
    assert not options.order.follows_world, "in_world() has not been called"
    return BatchReader(
        options.dataset,
        options.exact_order,
        batch_size=batching.batch_size,
        drop_last=batching.drop_last,
        by_shard=batching.by_shard,
        num_epochs=options.num_epochs,
        columns=options.schema.names,
        keep=options.keep,
        slices=options.slices,
        **options.read_arguments(block_rows),
        **further,
    )


@dataclass(frozen=True)
class ElasticLeg(Leg):
    """An epoch in the elastic order, or the rest of one: each worker reads samples of its own.

    Of the part that is read the first `skipped` samples are left out.
    """

    start: EpochStart
    work: npt.NDArray[np.int64]
    skipped: int = 0

    @property
    def token(self) -> tuple[EpochStart, World]:
        """What tells it from the others."""
        return self.start, self.options.elastic_share.world

    def blocks(
        self, part: int = 0, *, block_rows: int | None = None, unread: bool = False
    ) -> Iterator[Block]:
        """Read the batches of a part, or only lay them out."""
        options, batching = self.options, self.batching
        ids = self.work[part].reshape(-1)
        if len(ids) and ids.min() < 0:
            ids = ids[ids >= 0]
        reader = ElasticReader(
            options.dataset,
            ids[self.skipped :],
            batch_size=batching.batch_size,
            drop_last=batching.drop_last,
            columns=options.columns,
            predownload=samples_ahead(options, batching.batch_size),
            recorder=self.recorder,
            **options.read_arguments(block_rows),
        )
        return reader.planned() if unread else reader.blocks()

    def rest(self, part: int, mark: int) -> tuple[ElasticLeg, int]:
        """Return what follows a batch of a part."""
        return replace(self, skipped=self.skipped + mark), part


def samples_ahead(options: ReaderOptions, batch_size: int) -> int:
    """Return the least number of samples whose shards are opened ahead of use."""
    if options.predownload is not None:
        return options.predownload
    dataset = options.dataset
    per_row = max(dataset.nbytes // max(len(dataset), 1), 1)
    rows = dataset.bytes_ahead // per_row or min(_BYTES_AHEAD // per_row, BLOCK_ROWS)
    return max(8 * batch_size, rows)
