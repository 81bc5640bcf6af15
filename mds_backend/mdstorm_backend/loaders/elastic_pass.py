"""Passes of a loader in the elastic order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from mdstorm_backend.base.recorder import Recorder
from mdstorm_backend.elastic import ElasticShare
from mdstorm_backend.loaders.elastic_state import EpochStart
from mdstorm_backend.loaders.elastic_work import ElasticWork
from mdstorm_backend.loaders.reader_options import ReaderOptions
from mdstorm_backend.loaders.reading import Batching, Leg
from mdstorm_backend.order.world import World
from mdstorm_backend.read.block import Block
from mdstorm_backend.read.elastic_reader import ElasticReader


class ElasticPass:
    """A pass of a loader in the elastic order: some epochs, one after the other.

    Parameters
    ----------
    reading : ElasticWork
        What it is a pass of.
    batching : Batching
        How batches are made.
    goes_on : EpochStart, optional
        Where the next pass goes on.
    here : ElasticWork, optional
        The reading with the share of this pass, once it has begun.
    """

    def __init__(
        self,
        reading: ElasticWork,
        batching: Batching,
        goes_on: EpochStart | None = None,
        here: ElasticWork | None = None,
    ) -> None:
        self._reading = reading
        self._here = here
        self._batching = batching
        self._goes_on = goes_on
        self._start = goes_on
        #: Samples of this rank since `_start`.
        self.rows = 0

    @property
    def order(self) -> ElasticShare:
        """The order with the share of this pass, or before it the one that it would have."""
        return self._shared.options.elastic_share

    def following(self) -> ElasticPass:
        """Return what the next iteration goes through."""
        if self._goes_on is not None:
            self._reading.epochs.go_on(self._goes_on)
        following = ElasticPass(self._reading, self._batching, here=self._reading.begin())
        self._reading.last = following
        return following

    def num_batches(self) -> int:
        """Batches of a whole pass."""
        return self._reading.num_batches(self._batching)

    def legs(self) -> Iterator[Leg]:
        """Yield the epochs."""
        here = self._shared
        for start, work in here.epochs_of_pass(self._batching):
            self._start, self.rows = start, 0
            yield ElasticLeg(here.options, self._batching, start, work)

    def advance(self, mark: int, size: int) -> None:
        """Note that a batch was delivered, of `mark` samples."""
        self.rows += mark

    def finish(self) -> None:
        """Do nothing: the epochs are counted when they begin."""

    def copied(self) -> ElasticPass:
        """Return a copy that stands at the same place."""
        other = ElasticPass(self._reading, self._batching, self._goes_on, self._here)
        other._start, other.rows = self._start, self.rows
        return other

    def to_continue(self) -> ElasticPass:
        """Return the pass for a copy of the loader, whose dataset goes on from here."""
        start = self._start
        if start is not None:
            seen = start.sample_in_epoch + self.rows * self._shared.ranks
            start = replace(start, sample_in_epoch=seen)
        return ElasticPass(self._reading, self._batching, start)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of a checkpoint."""
        here = self._shared
        return here.state_dict(self.rows * here.ranks, False, self._start)

    @property
    def _shared(self) -> ElasticWork:
        """The reading with the share of this pass, or before it with the one that it would have."""
        return self._here or self._reading.here()


@dataclass(frozen=True)
class ElasticLeg:
    """One epoch, or the rest of one: each worker reads the samples of its own.

    Of the part that is read the first `skipped` samples are left out.
    """

    options: ReaderOptions
    batching: Batching
    start: EpochStart
    work: npt.NDArray[np.int64]
    skipped: int = 0
    recorder: Recorder | None = None

    @property
    def token(self) -> tuple[EpochStart, World]:
        """What tells it from the others."""
        return self.start, self.options.elastic_share.world

    def recorded(self, recorder: Recorder | None) -> ElasticLeg:
        """Return the same stretch, whose reading is recorded."""
        return replace(self, recorder=recorder)

    def blocks(self, part: int = 0, *, block_rows: int | None = None) -> Iterator[Block]:
        """Read the batches of a part."""
        return self._reader(part, block_rows).blocks()

    def planned(self, part: int = 0, *, block_rows: int | None = None) -> Iterator[Block]:
        """Yield what `blocks` would read, unread."""
        return self._reader(part, block_rows).planned()

    def rest(self, part: int, mark: int) -> tuple[ElasticLeg, int]:
        """Return what follows a batch of a part."""
        return replace(self, skipped=self.skipped + mark), part

    def _reader(self, part: int, block_rows: int | None) -> ElasticReader:
        ids = self.work[part].reshape(-1)
        if len(ids) and ids.min() < 0:
            ids = ids[ids >= 0]
        ids = ids[self.skipped :]
        return self.options.elastic_reader(
            ids,
            self.batching.batch_size,
            drop_last=self.batching.drop_last,
            block_rows=block_rows,
            recorder=self.recorder,
        )
