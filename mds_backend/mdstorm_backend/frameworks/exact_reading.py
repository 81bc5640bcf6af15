"""Reading in the exact order: see `mdstorm_backend.order`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mdstorm_backend.errors import StateMismatchError
from mdstorm_backend.frameworks.loader_state import LoaderState
from mdstorm_backend.frameworks.reading import Batching, Leg, Worker
from mdstorm_backend.order import ExactOrder, ceil_div
from mdstorm_backend.read.batch_reader import BatchReader
from mdstorm_backend.read.block import Block
from mdstorm_backend.read.row_stream import Position
from mdstorm_backend.world import World

if TYPE_CHECKING:
    from mdstorm_backend.frameworks.reader_options import ReaderOptions

__all__ = ["ExactReading"]

#: Samples that an iteration without a loader reads at a time.
_SAMPLES_AT_A_TIME = 1024


class ExactReading:
    """How a dataset is read in the exact order.

    Parameters
    ----------
    options : ReaderOptions
        What to read.
    next_epoch : int
        Epoch with which the next iteration over samples begins, or the first pass of a loader.
    """

    def __init__(self, options: ReaderOptions, next_epoch: int = 0) -> None:
        self.options = options
        self.next_epoch = next_epoch

    @property
    def rows_per_epoch(self) -> int:
        """Samples of this rank in one epoch."""
        first, last = self.options.here().exact_order.rows(len(self.options.dataset))
        return last - first

    @property
    def has_one_leg(self) -> bool:
        """Always: batches span epochs."""
        return True

    def reader(self, batching: Batching) -> BatchReader:
        """Return a reader of all batches of this rank, to ask for numbers."""
        return _reader(self.options.here(), batching)

    def num_batches(self, batching: Batching) -> int:
        """Batches of a whole pass."""
        return len(self.reader(batching))

    def is_uniform(self, batching: Batching) -> bool:
        """Whether all batches but the last are full: a rank that is short of rows splits one."""
        options = self.options
        if options.num_epochs is None or options.transform is not None:
            return options.transform is None
        if options.order.follows_world:  # and nobody knows yet what the share will be
            return False
        own = ceil_div(self.rows_per_epoch * options.num_epochs, batching.batch_size)
        return own == self.num_batches(batching)

    def first_pass(self, batching: Batching) -> ExactPass:
        """Return the pass of a loader that has not begun any."""
        return ExactPass(self, batching, LoaderState.before(self.next_epoch))

    def resumed(self, state: object, batching: Batching) -> tuple[ExactReading, ExactPass]:
        """Return how to read, and the pass to go on with, from where a state was taken."""
        here = self.options.here()
        share, progress = LoaderState.from_dict(state, here, _reader(here, batching))
        order = replace(self.options.exact_order, seed=share.seed)
        reading = ExactReading(replace(self.options, order=order), self.next_epoch)
        return reading, ExactPass(reading, batching, progress, replace(here, order=share))

    @property
    def epoch_size(self) -> int:
        """Samples of an epoch over the whole world."""
        return len(self.options.dataset)

    def leg(self, token: tuple[Position, int, World], batching: Batching) -> ExactLeg:
        """Return the stretch of a pass with that token."""
        start, first_epoch, world = token
        return ExactLeg(self.options.here(world), batching, start, first_epoch)

    def own_legs(self, batch_size: int | None, worker: Worker) -> Iterator[Leg]:
        """Begin an iteration over samples."""
        first_epoch = self.next_epoch
        self.skip_pass()
        batching = Batching(batch_size or _SAMPLES_AT_A_TIME, num_workers=worker.count)
        here = self.options.begin(worker.world)
        yield ExactLeg(here, batching, Position(epoch=first_epoch), first_epoch)

    def skip_pass(self) -> None:
        """Let the next iteration over samples have permutations of its own."""
        self.next_epoch += self.options.num_epochs or 1

    def state_dict(self, num_samples: int, from_beginning: bool) -> dict[str, Any]:
        """Refuse: in this order batches count, and only the loader knows them."""
        raise _no_state_of_samples()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Refuse, as `state_dict` does."""
        raise _no_state_of_samples()


def _no_state_of_samples() -> StateMismatchError:
    return StateMismatchError(
        "in the exact order the state is that of a StreamingDataLoader: take it from the loader, "
        "loader.state_dict(), and load it into one, or read in the elastic order"
    )


def _reader(options: ReaderOptions, batching: Batching) -> BatchReader:
    return options.reader(
        batching.batch_size, drop_last=batching.drop_last, by_shard=batching.by_shard
    )


class ExactPass:
    """A pass of a loader in the exact order.

    Parameters
    ----------
    reading : ExactReading
        What it is a pass of.
    batching : Batching
        How batches are made.
    progress : LoaderState
        Where it stands.
    here : ReaderOptions, optional
        With the share of the rows of which that tells; None before the pass begins.
    """

    def __init__(
        self,
        reading: ExactReading,
        batching: Batching,
        progress: LoaderState,
        here: ReaderOptions | None = None,
    ) -> None:
        self._reading = reading
        self._here = here
        self._batching = batching
        self._progress = progress
        self._is_endless = reading.options.num_epochs is None
        self.rows = 0

    def following(self) -> ExactPass:
        """Return what the next iteration goes through."""
        here, progress = self._reading.options.begin(), replace(self._progress)
        if progress.resumes and self._here is not None:
            _check_same_share(self._here.exact_order, here.exact_order)
        progress.begin()
        return ExactPass(self._reading, self._batching, progress, here)

    def legs(self) -> Iterator[Leg]:
        """Yield the one stretch that there is: batches span epochs."""
        progress = self._progress
        yield ExactLeg(self._shared, self._batching, progress.position, progress.first_epoch)

    def advance(self, mark: Position, size: int) -> None:
        """Note that a batch was delivered."""
        self._progress.position = mark
        if self._is_endless and mark.epoch > self._progress.first_epoch:
            options = self._reading.options
            options.notice.give(options.dataset.url)
        self.rows += size

    def finish(self) -> None:
        """Note that the pass came to its end."""
        self._progress.finish(self._reading.options.num_epochs)

    def copied(self) -> ExactPass:
        """Return a copy that stands at the same place."""
        other = ExactPass(self._reading, self._batching, replace(self._progress), self._here)
        other.rows = self.rows
        return other

    def to_continue(self) -> ExactPass:
        """Return the pass for a copy of the loader, which goes on from here."""
        progress = self._progress
        if progress.started:
            progress = progress.to_continue(_reader(self._shared, self._batching))
        here = self._here if progress.resumes else None
        return ExactPass(self._reading, self._batching, replace(progress), here)

    def state_dict(self) -> dict[str, Any]:
        """Return the state of a checkpoint."""
        here = self._shared
        return self._progress.to_dict(here, _reader(here, self._batching))

    @property
    def _shared(self) -> ReaderOptions:
        """How it is read: with the share of this pass, or before it the one that it would have."""
        return self._here or self._reading.options.here()


def _check_same_share(before: ExactOrder, now: ExactOrder) -> None:
    """Refuse to go on in the middle of other rows."""
    if (before.rank, before.world_size) != (now.rank, now.world_size):
        raise StateMismatchError(
            f"the place where the pass is to go on was counted by rank {before.rank} of "
            f"{before.world_size}, and this process is rank {now.rank} of {now.world_size}: load "
            "the state in the process that reads, once its process group is made"
        )


@dataclass(frozen=True)
class ExactLeg:
    """A pass from some position on."""

    options: ReaderOptions
    batching: Batching
    start: Position
    first_epoch: int

    @property
    def token(self) -> tuple[Position, int, World]:
        """What tells it from the others."""
        order = self.options.exact_order
        return self.start, self.first_epoch, World(order.rank, order.world_size)

    def blocks(self, part: int = 0, *, block_rows: int | None = None) -> Iterator[Block]:
        """Read the batches of a part."""
        return self._reader(part, block_rows).blocks(self.start, self.first_epoch)

    def planned(self, part: int = 0, *, block_rows: int | None = None) -> Iterator[Block]:
        """Yield what `blocks` would read, unread."""
        return self._reader(part, block_rows).planned(self.start, self.first_epoch)

    def _reader(self, part: int, block_rows: int | None) -> BatchReader:
        rows = {} if block_rows is None else {"block_rows": block_rows}
        return self.options.reader(
            self.batching.batch_size,
            drop_last=self.batching.drop_last,
            by_shard=self.batching.by_shard,
            part=(part, max(self.batching.num_workers, 1)),
            **rows,
        )
