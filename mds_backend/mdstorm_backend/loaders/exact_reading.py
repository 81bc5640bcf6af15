"""Reading in the exact order: see `mdstorm_backend.order.exact`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from mdstorm_backend.base.errors import StateMismatchError
from mdstorm_backend.loaders.loader_state import LoaderState
from mdstorm_backend.loaders.reading import Batching, Leg, Worker
from mdstorm_backend.order.exact import ceil_div
from mdstorm_backend.read.batch_reader import BatchReader
from mdstorm_backend.read.block import Block
from mdstorm_backend.read.row_stream import Position

if TYPE_CHECKING:
    from mdstorm_backend.loaders.reader_options import ReaderOptions

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
        first, last = self.options.exact_order.rows(len(self.options.dataset))
        return last - first

    @property
    def has_one_leg(self) -> bool:
        """Always: batches span epochs."""
        return True

    def reader(self, batching: Batching) -> BatchReader:
        """Return a reader of all batches of this rank, to ask for numbers."""
        return self.options.reader(
            batching.batch_size, drop_last=batching.drop_last, by_shard=batching.by_shard
        )

    def num_batches(self, batching: Batching) -> int:
        """Batches of a whole pass."""
        return len(self.reader(batching))

    def is_uniform(self, batching: Batching) -> bool:
        """Whether all batches but the last are full: a rank that is short of rows splits one."""
        options = self.options
        if options.num_epochs is None or options.transform is not None:
            return options.transform is None
        own = ceil_div(self.rows_per_epoch * options.num_epochs, batching.batch_size)
        return own == self.num_batches(batching)

    def first_pass(self, batching: Batching) -> ExactPass:
        """Return the pass of a loader that has not begun any."""
        return ExactPass(self, batching, LoaderState.before(self.next_epoch))

    def resumed(self, state: object, batching: Batching) -> tuple[ExactReading, ExactPass]:
        """Return how to read, and the pass to go on with, from where a state was taken."""
        order, progress = LoaderState.from_dict(state, self.options, self.reader(batching))
        reading = ExactReading(replace(self.options, order=order), self.next_epoch)
        return reading, ExactPass(reading, batching, progress)

    @property
    def epoch_size(self) -> int:
        """Samples of an epoch over the whole world."""
        return len(self.options.dataset)

    def leg(self, token: tuple[Position, int], batching: Batching) -> ExactLeg:
        """Return the stretch of a pass with that token."""
        return ExactLeg(self.options, batching, *token)

    def own_legs(self, batch_size: int | None, worker: Worker) -> Iterator[Leg]:
        """Begin an iteration over samples."""
        first_epoch = self.next_epoch
        self.skip_pass()
        batching = Batching(batch_size or _SAMPLES_AT_A_TIME, num_workers=worker.count)
        yield ExactLeg(self.options, batching, Position(epoch=first_epoch), first_epoch)

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


class ExactPass:
    """A pass of a loader in the exact order."""

    def __init__(self, reading: ExactReading, batching: Batching, progress: LoaderState) -> None:
        self._reading = reading
        self._batching = batching
        self._progress = progress
        self._is_endless = reading.options.num_epochs is None
        self.rows = 0

    def following(self) -> ExactPass:
        """Return what the next iteration goes through."""
        progress = replace(self._progress)
        progress.begin()
        return ExactPass(self._reading, self._batching, progress)

    def legs(self) -> Iterator[Leg]:
        """Yield the one stretch that there is: batches span epochs."""
        progress = self._progress
        yield ExactLeg(
            self._reading.options, self._batching, progress.position, progress.first_epoch
        )

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
        other = ExactPass(self._reading, self._batching, replace(self._progress))
        other.rows = self.rows
        return other

    def to_continue(self) -> ExactPass:
        """Return the pass for a copy of the loader, which goes on from here."""
        progress = self._progress
        if progress.started:
            progress = progress.to_continue(self._reading.reader(self._batching))
        return ExactPass(self._reading, self._batching, replace(progress))

    def state_dict(self) -> dict[str, Any]:
        """Return the state of a checkpoint."""
        return self._progress.to_dict(self._reading.options, self._reading.reader(self._batching))


@dataclass(frozen=True)
class ExactLeg:
    """A pass from some position on."""

    options: ReaderOptions
    batching: Batching
    start: Position
    first_epoch: int

    @property
    def token(self) -> tuple[Position, int]:
        """What tells it from the others."""
        return self.start, self.first_epoch

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
