"""Read a dataset in the exact order: see `mdstorm_backend.order.exact`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mdstorm_backend.errors import StateMismatchError
from mdstorm_backend.loaders.loader_state import LoaderState
from mdstorm_backend.loaders.reader_options import ReaderOptions
from mdstorm_backend.loaders.reading import Batching, Leg, Worker
from mdstorm_backend.order.exact import ExactOrder, ceil_div, rows_of_batches
from mdstorm_backend.order.world import World
from mdstorm_backend.read.batch_reader import BatchReader
from mdstorm_backend.read.block import Block
from mdstorm_backend.read.row_stream import Position

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
        self._next_epoch = next_epoch
        #: How often somebody has said where to begin; passes made before are over then.
        self.times_set = 0
        #: A state with which the next iteration goes on.
        self.resumes: Mapping[str, Any] | None = None
        #: The iteration that was begun last, and whether it is one over samples.
        self._last: ExactPass | None = None
        self._is_own = False

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_last": None}

    @property
    def next_epoch(self) -> int:
        """Epoch with which the next iteration over samples begins, and of loaders if it is set."""
        return self._next_epoch

    @next_epoch.setter
    def next_epoch(self, epoch: int) -> None:
        if epoch != self._next_epoch:
            self.resumes = None  # which stays if a loop names the epoch that it goes on with
        self._next_epoch = epoch
        self.times_set += 1

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
        if self.resumes is None:
            return ExactPass(self, batching, LoaderState.before(self.next_epoch))
        here = self.options.here()
        progress = LoaderState.from_dict(self.resumes, here, _reader(here, batching))[1]
        return ExactPass(self, batching, progress, here)

    def note(self, begun: ExactPass, *, is_own: bool = False) -> None:
        """Note which iteration was begun."""
        self._last, self._is_own, self.resumes = begun, is_own, None

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

    def leg(self, token: tuple[Position, int, ExactOrder], batching: Batching) -> ExactLeg:
        """Return the stretch of a pass with that token."""
        start, first_epoch, order = token
        return ExactLeg(replace(self.options, order=order), batching, start, first_epoch)

    def own_legs(self, batch_size: int | None, worker: Worker) -> Iterator[Leg]:
        """Begin an iteration over samples."""
        batching = Batching(batch_size or _SAMPLES_AT_A_TIME, num_workers=worker.count)
        current = self.first_pass(batching).following(worker.world)
        self.note(current, is_own=True)
        self._next_epoch = current.first_epoch
        self.skip_pass()
        yield from current.legs()

    def skip_pass(self) -> None:
        """Let the next iteration over samples have permutations of its own."""
        self._next_epoch += self.options.num_epochs or 1

    def state_dict(self, num_samples: int, from_beginning: bool) -> dict[str, Any]:
        """Return the state after so many samples of a pass, over the whole world."""
        current = self._last or self.first_pass(Batching(1))
        if self.options.transform is not None and self._last and not self._is_own:
            # Samples do not tell how far it is, but the loader has noted it.
            return current.state_dict()
        return current.state_after(num_samples, from_beginning)

    def state_of_samples(self, num_samples: int) -> dict[str, Any]:
        """Return the state of the iteration begun last; over samples, after so many of this rank.

        Raises
        ------
        StateMismatchError
            If a transform may have dropped rows.
        """
        current = self._last or self.first_pass(Batching(1))
        return current.state_after_rows(num_samples) if self._is_own else current.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next iteration go on where a state was taken."""
        here = self.options.here()
        order, progress = LoaderState.from_dict(state, here, _reader(here, Batching(1)))
        seeded = replace(self.options.exact_order, seed=order.seed)
        self.options = replace(self.options, order=seeded)
        self.resumes, self._last = state, None
        self._next_epoch = progress.position.epoch
        self.times_set += 1


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
        self._times_set = reading.times_set
        #: Where this iteration begins.
        self._start = progress.position
        self.rows = 0

    @property
    def first_epoch(self) -> int:
        """The epoch with which the pass began."""
        return self._progress.first_epoch

    def following(self, world: World | None = None) -> ExactPass:
        """Return what the next iteration goes through: where the dataset was told to, if it was."""
        reading, progress = self._reading, replace(self._progress)
        if self._times_set != reading.times_set and not (
            reading.resumes is None
            and progress.resumes
            and progress.position.epoch == reading.next_epoch
        ):
            return reading.first_pass(self._batching).following(world)
        here = reading.options.begin(world)
        if progress.resumes and self._here is not None:
            _check_same_share(self._here.exact_order, here.exact_order)
        progress.begin()
        following = ExactPass(reading, self._batching, progress, here)
        reading.note(following)
        return following

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

    def state_after(self, num_samples: int, from_beginning: bool) -> dict[str, Any]:
        """Return the state after so many samples over the whole world.

        They count from the beginning of the pass, or of this iteration. Where this rank has just
        delivered its part of them, its own place counts, which also knows of short batches.
        """
        world_size = self._shared.exact_order.world_size
        before = self._rows_before() if from_beginning else 0
        is_here = abs(num_samples - (before + self.rows) * world_size) < world_size
        if not self._start.batches:
            is_here = num_samples == self._samples_of_all()
        if is_here or (self._progress.finished and not num_samples):
            return self.state_dict()
        return self.state_after_rows(num_samples // world_size - before)

    def _samples_of_all(self) -> int:
        """Samples that all ranks have delivered when they have had as many batches as this one."""
        options, order = self._shared, self._shared.exact_order
        batches, size = self._progress.position.batches, self._batching.batch_size
        if options.num_epochs is None:
            return batches * size * order.world_size
        num_batches = len(_reader(options, self._batching))
        shares = [
            replace(order, rank=rank).rows(len(options.dataset)) for rank in range(order.world_size)
        ]
        rows = [(last - first) * options.num_epochs for first, last in shares]
        return sum(rows_of_batches(total, num_batches, size, batches) for total in rows)

    def state_after_rows(self, rows: int) -> dict[str, Any]:
        """Return the state after so many rows of this rank since this iteration began."""
        here = self._shared
        reader = _reader(here, self._batching)
        rows = max(rows + self._rows_before(), 0)
        if here.num_epochs is not None:
            rows = min(rows, here.num_epochs * reader.rows_per_epoch)
        epochs, row = divmod(rows, max(reader.rows_per_epoch, 1))
        if epochs == here.num_epochs:
            epochs, row = epochs - 1, reader.rows_per_epoch
        place = Position(self.first_epoch + epochs, row, reader.batches_before(rows))
        return replace(self._progress, position=place, started=rows > 0).to_dict(here, reader)

    def _rows_before(self) -> int:
        """Rows of this rank that were delivered of the pass before this iteration."""
        if self._shared.transform is not None:
            raise StateMismatchError(
                "a transform may drop rows, so that samples do not tell how far the dataset is: "
                "take the state from a StreamingDataLoader over it, loader.state_dict()"
            )
        start, per_epoch = self._start, _reader(self._shared, self._batching).rows_per_epoch
        return (start.epoch - self.first_epoch) * per_epoch + start.row

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
    def token(self) -> tuple[Position, int, ExactOrder]:
        """What tells it from the others."""
        return self.start, self.first_epoch, self.options.exact_order

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
