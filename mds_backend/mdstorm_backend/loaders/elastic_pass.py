"""Passes of a loader in the elastic order: their epochs, what a rank reads of them, their place."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from mdstorm_backend.elastic import ElasticShare, StreamShape
from mdstorm_backend.errors import InvalidArgumentError, StateMismatchError
from mdstorm_backend.loaders.elastic_state import ElasticEpochs, EpochStart, Joining
from mdstorm_backend.loaders.legs import Batching, ElasticLeg, Leg
from mdstorm_backend.loaders.reader_options import ReaderOptions
from mdstorm_backend.loaders.state_values import VERSION
from mdstorm_backend.order.shares import ceil_div
from mdstorm_backend.order.world import World
from mdstorm_backend.read.window_stream import warn_no_data

Ids = npt.NDArray[np.int64]

#: What decides the samples of an epoch and is not in the keys of MosaicML Streaming's states. The
#: batch size may change with the world, as long as the global batch stays the same.
_SETTINGS = (
    "shuffle",
    "shuffle_algo",
    "shuffle_block_size",
    "partition_algo",
    "batching_method",
    "sampling_method",
    "sampling_granularity",
    "epoch_size",
)

#: From so many samples on, to shuffle an epoch takes longer than to read a few batches.
_MANY = 1 << 17


class ElasticSchedule:
    """The epochs of a dataset in the elastic order, and what each rank reads of them.

    Parameters
    ----------
    options : ReaderOptions
        What to read; its order is an `ElasticShare`.
    epochs : ElasticEpochs, optional
        Counts the epochs; by default from the first one of the options on.
    """

    def __init__(self, options: ReaderOptions, epochs: ElasticEpochs | None = None) -> None:
        self.options = options
        self.epochs = epochs or ElasticEpochs(options.first_epoch)
        #: The pass of a loader that was begun last; None for an iteration over samples.
        self.last: ElasticPass | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "last": None}

    @property
    def share(self) -> ElasticShare:
        """The order, and this process's share as it is now."""
        return self.options.in_world().elastic_share

    def in_world(self, world: World | None = None) -> ElasticSchedule:
        """Return the same epochs with a share that is known: see `ReaderOptions.in_world`."""
        options = self.options.in_world(world)
        return self if options is self.options else ElasticSchedule(options, self.epochs)

    @property
    def streams(self) -> tuple[StreamShape, ...]:
        """The streams, at least one."""
        return self.share.streams or (StreamShape(self.options.dataset.shard_sizes),)

    @property
    def epoch_size(self) -> int:
        """Samples of an epoch over the whole world."""
        return self.share.order.num_samples(self.streams)

    @property
    def ranks(self) -> int:
        """Ranks that see different samples."""
        share = self.share
        return share.world.replicated(share.order.replication).size

    @property
    def rows_per_epoch(self) -> int:
        """Samples of this rank in one epoch, as MosaicML Streaming counts them."""
        return ceil_div(self.epoch_size, self.ranks)

    def num_batches(self, batching: Batching) -> int:
        """Batches of a whole pass, as MosaicML Streaming counts them: there may be more."""
        if self.options.num_epochs is None:
            raise TypeError("the number of batches is not known: num_epochs=None never ends")
        rows, size = self.rows_per_epoch, batching.batch_size
        return self.options.num_epochs * (
            rows // size if batching.drop_last else ceil_div(rows, size)
        )

    def epochs_of_pass(
        self, batching: Batching, joining: Joining | None = None
    ) -> Iterator[tuple[EpochStart, Ids]]:
        """Begin the epochs of a pass in turn, or of the rest of one.

        Yields
        ------
        start : EpochStart
            Where the epoch begins; its ``first_epoch`` is that of the pass.
        work : numpy.ndarray
            What `work` returns for it.
        """
        num_epochs, first = self.options.num_epochs, None
        while True:
            start = self.epochs.begin(joining, first)
            if num_epochs is None and first is not None:
                self.options.notice.give(self.options.dataset.url)
            work = self.work(start, batching)
            if first is None:
                first = start.epoch if start.first_epoch is None else start.first_epoch
                self.options.note_pass(first)
            is_last = num_epochs is not None and start.epoch - first + 1 >= num_epochs
            if work.shape[1]:
                end = start.sample_in_epoch + self.ranks * int(np.count_nonzero(work >= 0))
                self.epochs.note_end(start, end)
                yield replace(start, first_epoch=first, end=end), work
            elif not start.sample_in_epoch:
                warn_no_data(self.options.dataset.url)
                return
            elif is_last:
                first = None  # the pass was over when the state was taken: begin the next one
                continue
            if is_last:
                return

    def work(self, start: EpochStart, batching: Batching) -> Ids:
        """Sample ids of this rank from `start` on: int64 of (workers, batches, batch size)."""
        order, *asked = self._asked(start, batching)
        if start.sample_in_epoch and start.sample_in_epoch == start.end:  # whatever is padded here
            return np.empty((max(batching.num_workers, 1), 0, order.batch_size), np.int64)
        try:
            return self.epochs.ahead.take((order, *asked), partial(order.rank_work, *asked))
        except InvalidArgumentError as error:
            if not start.sample_in_epoch:
                raise
            raise StateMismatchError(
                f"the state does not fit {self.options.dataset.url} read by {self.ranks} ranks in "
                f"batches of {order.batch_size}: {error}"
            ) from error

    def work_ahead(self, start: EpochStart, batching: Batching) -> None:
        """Begin to compute what `work` returns for the epoch after `start`, if it takes long."""
        if not self.share.order.shuffle or self.epoch_size < _MANY:
            return
        order, *asked = self._asked(start.following(), batching)
        self.epochs.ahead.begin((order, *asked), partial(order.rank_work, *asked))

    def _asked(self, start: EpochStart, batching: Batching) -> tuple[Any, ...]:
        """Return the order, and the arguments of its `rank_work`."""
        share = self.share
        order = start.order(share.of_batches(batching.batch_size))
        return (
            order.resolved(share.world.replicated(order.replication).num_nodes),
            self.streams,
            share.world,
            start.epoch,
            start.sample_in_epoch,
            start.initial_physical_nodes,
            max(batching.num_workers, 1),
        )

    def state_dict(
        self, num_samples: int, from_beginning: bool, start: EpochStart | None = None
    ) -> dict[str, Any]:
        """Return the state after so many samples of an epoch, over the whole world."""
        share, start = self.share, start or self.epochs.begun
        state = self.epochs.state_dict(
            share.order, share.world, num_samples, from_beginning=from_beginning, start=start
        )
        first_epoch = None if start is None else start.first_epoch
        ours = {
            "version": VERSION,
            "order": "elastic",
            "world_size": share.world_size,
            "dataset": self.options.dataset.fingerprint,
            "first_epoch": state["epoch"] if first_epoch is None else first_epoch,
            "epoch_end": None if start is None else start.end,
            "settings": self._settings(),
        }
        return {**state, "mdstorm": ours}

    def _settings(self) -> dict[str, Any]:
        """What else decides the samples of an epoch, in a few plain values."""
        order = self.share.order
        counts = [weight.choose for weight in order.weights(self.streams)]
        return {
            **{name: getattr(order, name) for name in _SETTINGS},
            "weights": hashlib.sha256(repr(counts).encode()).hexdigest()[:8],
        }


@dataclass(eq=False)
class ElasticPass:
    """A pass of a loader in the elastic order: some epochs, one after the other.

    Parameters
    ----------
    schedule : ElasticSchedule
        What it is a pass of.
    batching : Batching
        How batches are made.
    goes_on : EpochStart, optional
        Where the next pass goes on.
    here : ElasticSchedule, optional
        The same with the share of this pass, once it has begun.
    """

    schedule: ElasticSchedule
    batching: Batching
    goes_on: EpochStart | None = None
    here: ElasticSchedule | None = None

    def __post_init__(self) -> None:
        self._start = self.goes_on
        #: Samples of this rank since `_start`, and how many there are.
        self.rows = self._num_rows = 0

    @property
    def order(self) -> ElasticShare:
        """The order with the share of this pass, or before it the one that it would have."""
        return self._shared.options.elastic_share

    def following(self) -> ElasticPass:
        """Return what the next iteration goes through."""
        if self.goes_on is not None:
            self.schedule.epochs.go_on(self.goes_on)
        following = ElasticPass(self.schedule, self.batching, here=self.schedule.in_world())
        self.schedule.last = following
        return following

    def num_batches(self) -> int:
        """Batches of a whole pass."""
        return self.schedule.num_batches(self.batching)

    def legs(self) -> Iterator[Leg]:
        """Yield the epochs."""
        here = self._shared
        for start, work in here.epochs_of_pass(self.batching):
            self._start, self.rows, self._num_rows = start, 0, int(np.count_nonzero(work >= 0))
            yield ElasticLeg(here.options, self.batching, start, work)

    def advance(self, mark: int, size: int) -> None:
        """Note that a batch was delivered, of `mark` samples."""
        self.rows += mark
        if self._start is not None and 2 * self.rows >= self._num_rows > 2 * (self.rows - mark):
            self._shared.work_ahead(self._start, self.batching)

    def finish(self) -> None:
        """Do nothing: the epochs are counted when they begin."""

    def copied(self) -> ElasticPass:
        """Return a copy that stands at the same place."""
        return copy(self)

    def to_continue(self) -> ElasticPass:
        """Return the pass for a copy of the loader, whose dataset goes on from here."""
        start = self._start
        if start is not None:
            start = replace(start, sample_in_epoch=start.sample_in_epoch + self._delivered())
        return ElasticPass(self.schedule, self.batching, start)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of a checkpoint."""
        return self._shared.state_dict(self._delivered(), False, self._start)

    def _delivered(self) -> int:
        """Return the samples that all ranks have had since `_start`.

        Raises
        ------
        StateMismatchError
            If they do not say which ones.
        """
        here, batching = self._shared, self.batching
        size = here.share.of_batches(batching.batch_size).batch_size
        is_mixed = batching.num_workers > 1 and size != batching.batch_size
        if is_mixed and 0 < self.rows < self._num_rows:
            raise StateMismatchError(
                f"the dataset has batch_size={size}, and its loader {batching.batch_size}: with "
                f"{batching.num_workers} workers, each of which makes batches of its own samples, "
                "their number within an epoch does not say which samples were delivered. Pass "
                "the same batch_size to both, or read with num_workers=0"
            )
        return self.rows * here.ranks

    @property
    def _shared(self) -> ElasticSchedule:
        """The schedule with this pass's share; before it begins, with the share as it is now."""
        return self.here or self.schedule.in_world()
