"""Reading in the elastic order: see `mdstorm_backend.elastic`."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mdstorm_backend.elastic import StreamShape
from mdstorm_backend.errors import InvalidArgumentError, StateMismatchError
from mdstorm_backend.frameworks.elastic_epochs import ElasticEpochs, EpochStart, Joining
from mdstorm_backend.frameworks.elastic_pass import ElasticLeg, ElasticPass
from mdstorm_backend.frameworks.elastic_share import ElasticShare
from mdstorm_backend.frameworks.reading import Batching, Leg, Worker
from mdstorm_backend.order import ceil_div
from mdstorm_backend.read.window_stream import warn_no_data
from mdstorm_backend.world import World

if TYPE_CHECKING:
    from mdstorm_backend.frameworks.reader_options import ReaderOptions

__all__ = ["ElasticReading"]

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


class ElasticReading:
    """How a dataset is read in the elastic order.

    Parameters
    ----------
    options : ReaderOptions
        What to read; its order is an `ElasticShare`.
    epochs : ElasticEpochs, optional
        Counts the epochs; by default from the first one on.
    """

    def __init__(self, options: ReaderOptions, epochs: ElasticEpochs | None = None) -> None:
        self.options = options
        self.epochs = epochs or ElasticEpochs()
        #: The pass of a loader that was begun last; None for an iteration over samples.
        self.last: ElasticPass | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "last": None}

    @property
    def share(self) -> ElasticShare:
        """The order, and this process's share as it is now."""
        return self.options.here().elastic_share

    def here(self, world: World | None = None) -> ElasticReading:
        """Return the reading of the same epochs whose share is known: see `ReaderOptions.here`."""
        return self._with(self.options.here(world))

    def begin(self, world: World | None = None) -> ElasticReading:
        """Return the same as `here`, for a pass that begins."""
        return self._with(self.options.begin(world))

    def _with(self, options: ReaderOptions) -> ElasticReading:
        return self if options is self.options else ElasticReading(options, self.epochs)

    @property
    def next_epoch(self) -> int:
        """Number of the epoch that is begun next."""
        return self.epochs.next_epoch

    @next_epoch.setter
    def next_epoch(self, epoch: int) -> None:
        self.epochs.next_epoch = epoch

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

    @property
    def has_one_leg(self) -> bool:
        """Whether a pass is one epoch, which no batch spans."""
        return self.options.num_epochs == 1

    def num_batches(self, batching: Batching) -> int:
        """Batches of a whole pass, as MosaicML Streaming counts them: there may be more."""
        if self.options.num_epochs is None:
            raise TypeError("the number of batches is not known: num_epochs=None never ends")
        rows, size = self.rows_per_epoch, batching.batch_size
        return self.options.num_epochs * (
            rows // size if batching.drop_last else ceil_div(rows, size)
        )

    def is_uniform(self, batching: Batching) -> bool:
        """Whether all batches of an epoch but its last are full."""
        return self.options.transform is None

    def first_pass(self, batching: Batching) -> ElasticPass:
        """Return the pass of a loader that has not begun any."""
        return ElasticPass(self, batching)

    def resumed(self, state: object, batching: Batching) -> tuple[ElasticReading, ElasticPass]:
        """Return how to read, and the pass to go on with, from where a state was taken."""
        self.load_state_dict(state)
        return self, ElasticPass(self, batching)

    def leg(self, token: tuple[EpochStart, World], batching: Batching) -> ElasticLeg:
        """Return the stretch of a pass with that token."""
        start, world = token
        here = self.here(world)
        return ElasticLeg(here.options, batching, start, here.work(start, batching))

    def own_legs(self, batch_size: int | None, worker: Worker) -> Iterator[Leg]:
        """Begin an iteration over samples, or join in with other workers."""
        share = self.options.elastic_share
        depends = worker.count > 1 or share.order.batching_method != "random"
        if depends and not share.states_batch_size:
            raise InvalidArgumentError(
                "which sample comes when depends on the batches: please pass `batch_size` to the "
                "StreamingDataset, the same as to the loader"
            )
        joining = None if worker.group is None else Joining(worker.number, worker.group)
        batching = Batching(batch_size or 1, num_workers=worker.count)
        here, self.last = self.begin(worker.world), None
        for start, work in here.epochs_of_pass(batching, joining):
            yield ElasticLeg(here.options, batching, start, work)

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
            start = self.epochs.begin(joining)
            if num_epochs is None and first is not None:
                self.options.notice.give(self.options.dataset.url)
            work = self.work(start, batching)
            if first is None:
                first = start.epoch if start.first_epoch is None else start.first_epoch
            is_last = num_epochs is not None and start.epoch - first + 1 >= num_epochs
            if work.shape[1]:
                yield replace(start, first_epoch=first), work
            elif not start.sample_in_epoch:
                warn_no_data(self.options.dataset.url)
                return
            elif is_last:
                first = None  # the pass was over when the state was taken: begin the next one
                continue
            if is_last:
                return

    def skip_pass(self) -> None:
        """Do nothing: the workers have counted the pass."""

    def work(self, start: EpochStart, batching: Batching) -> Ids:
        """Sample ids of this rank from `start` on: int64 of (workers, batches, batch size)."""
        share = self.share
        order = start.order(share.of_batches(batching.batch_size))
        nodes = share.world.replicated(order.replication).num_nodes
        try:
            return order.resolved(nodes).rank_work(
                self.streams,
                share.world,
                start.epoch,
                start.sample_in_epoch,
                start.initial_physical_nodes,
                max(batching.num_workers, 1),
            )
        except InvalidArgumentError as error:
            if not start.sample_in_epoch:
                raise
            raise StateMismatchError(
                f"the state does not go with {self.options.dataset.url} read by {self.ranks} ranks "
                f"in batches of {order.batch_size}: {error}"
            ) from error

    def state_dict(
        self, num_samples: int, from_beginning: bool, start: EpochStart | None = None
    ) -> dict[str, Any]:
        """Return the state after so many samples of an epoch, over the whole world."""
        share = self.share
        state = self.epochs.state_dict(
            share.order, share.world, num_samples, from_beginning=from_beginning, start=start
        )
        first_epoch = None if start is None else start.first_epoch
        ours = {
            "order": "elastic",
            "dataset": self.options.dataset.fingerprint,
            "first_epoch": state["epoch"] if first_epoch is None else first_epoch,
            "settings": self._settings(),
        }
        return {**state, "mdstorm": ours}

    def state_of_samples(self, num_samples: int) -> dict[str, Any]:
        """Return the state of the iteration begun last; over samples, after so many of this rank.

        Raises
        ------
        StateMismatchError
            If worker processes read them.
        """
        if self.epochs.is_joined:
            raise StateMismatchError(
                "the samples are read in worker processes, and this one does not know how many "
                "they have delivered: use a StreamingDataLoader and its state_dict(), or "
                "num_workers=0"
            )
        if self.last is not None:
            return self.last.state_dict()
        return self.state_dict(num_samples * self.ranks, False)

    def _settings(self) -> dict[str, Any]:
        """What else decides the samples of an epoch, in a few plain values."""
        order = self.share.order
        counts = [weight.choose for weight in order.weights(self.streams)]
        return {
            **{name: getattr(order, name) for name in _SETTINGS},
            "weights": hashlib.sha256(repr(counts).encode()).hexdigest()[:8],
        }

    def load_state_dict(self, state: object) -> None:
        """Let the next epoch be the one in which a state was taken, from there on.

        Raises
        ------
        StateMismatchError
            If it was taken from another dataset, order or world, or is no state.
        """
        ours = state.get("mdstorm") if isinstance(state, Mapping) else None
        first_epoch = None
        if ours is not None:
            first_epoch = self._check_ours(ours, state)  # type: ignore[arg-type]
        self.epochs.load_state_dict(state, first_epoch)
        self.last = None

    def _check_ours(self, ours: object, state: Mapping[str, Any]) -> int | None:
        if not isinstance(ours, Mapping) or ours.get("order") != "elastic":
            raise StateMismatchError(
                "the state was not taken in the order 'elastic', so it does not say which samples "
                "are to be skipped. Load it where it was taken"
            )
        here: dict[str, Any] = {"dataset": self.options.dataset.fingerprint}
        there = {"dataset": ours.get("dataset")}
        if state.get("sample_in_epoch"):  # between epochs settings may change
            here |= self._settings()
            there |= dict(ours.get("settings") or {})
        wrong = [
            f"{name}: {there.get(name)!r} there, {value!r} here"
            for name, value in here.items()
            if there.get(name) != value
        ]
        if wrong:
            raise StateMismatchError(
                f"the state was taken from another reading of {self.options.dataset.url} or from "
                f"another dataset ({'; '.join(wrong)}). Make an equal loader over the same dataset"
            )
        first_epoch = ours.get("first_epoch")
        # Before the first epoch it is -1, and no pass has begun.
        return first_epoch if isinstance(first_epoch, int) and first_epoch >= 0 else None
