"""`Epochs`: where the next iteration over a dataset begins, in a process and its workers.

All loaders over a dataset share its `Epochs`. Nothing moves while batches are taken. When the next
iteration begins, it looks back at the latest one, of which it has kept a `Usage`:

- After `load_state_dict` or `set_epoch`, the next iteration begins there.
- If the latest iteration was a *peek*, the next one begins at the same position. A peek used at
  most as many batches as its `Consumer` may peek at, by default one; its end counts like another
  batch. Only the first iteration, and the first one after a state was loaded or an epoch set, may
  peek. So a rank that peeks is not ahead of the others. Of an iteration that was interrupted before
  its first batch, nothing was used, so it changes nothing.
- Otherwise, the next iteration begins after the latest epoch that iterations have reached.

The workers of a plain ``DataLoader`` have copies of the dataset and also call `begin`. The first
worker in a group begins the iteration, and the others join it. Their samples are used as soon as
the iteration begins. A worker may be epochs ahead of one that has not joined yet.

The processes share an `EpochRecord`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing import context
from typing import Any

from mdstorm_backend.base import is_integer, warn_user
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.loaders.consumer import Consumer, Usage
from mdstorm_backend.loaders.epoch_record import EpochRecord
from mdstorm_backend.loaders.reader_options import ReaderOptions
from mdstorm_backend.loaders.segment import Segment
from mdstorm_backend.loaders.shared_record import SharedRecord
from mdstorm_backend.loaders.state import read_state, state_mapping, write_state
from mdstorm_backend.order import Position, World

_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Worker:
    """One of the processes that share a dataset's samples in a plain ``DataLoader``.

    Attributes
    ----------
    number, count : int
        The worker's number, from 0, and the number of workers.
    group : int or None
        Identifies the workers that were started together; None outside a worker process.
    world : World or None
        The world as seen by the process that started the workers; None if it is not known, or if
        this is that process.
    """

    number: int = 0
    count: int = 1
    group: int | None = None
    world: World | None = None


class Epochs:
    """Where the next iteration over a dataset begins.

    Attributes
    ----------
    changes, loads : int
        How often a state was loaded or an epoch set in this process, and how often a state was
        loaded. An iteration that began before a change does not affect where the next one begins.
    is_loaded : bool
        Whether the user has loaded a state, and no iteration has begun since.
    loaded : mapping or None
        The state that was loaded last; None if there is none.
    """

    def __init__(self) -> None:
        self._first: Callable[[], Usage] = Usage
        self._on_pass: Callable[[Any], None] | None = None
        self._record = SharedRecord(EpochRecord())
        #: Number of iterations that this process has begun as a worker.
        self._iterations = 0
        #: The latest iteration in this process.
        self._latest: Usage | None = None
        self.is_loaded = False
        self.loaded: Mapping[str, Any] | None = None
        self.changes = self.loads = 0

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle; a copy begins where the next iteration would begin here."""
        if context.get_spawning_popen() is not None:  # a worker process, which shares the record
            return self.__dict__
        record = SharedRecord(self._own_record.read().copied(self._latest))
        return {**self.__dict__, "_record": record, "_latest": None}

    def follow(self, options: ReaderOptions) -> None:
        """Use the first iteration that `options` determine, and call their `on_pass`."""
        self._first, self._on_pass = options.first, options.on_pass

    @property
    def _own_record(self) -> SharedRecord[EpochRecord]:
        """The record of this process and its workers; each rank has its own."""
        self._record.part()
        return self._record

    @property
    def next_position(self) -> Position:
        """The position at which the next pass begins or resumes."""
        return self.following().start

    def next_state(self, options: ReaderOptions) -> dict[str, Any]:
        """Return the state of `next_position`."""
        return write_state(options.in_world(), self.next_position)

    def following(self) -> Usage:
        """Return the next iteration, which has not begun."""
        return self._following(self._own_record.read())

    def _following(self, record: EpochRecord) -> Usage:
        return record.following(self._latest) or self._first()

    def set_next(self, epoch: int, num_epochs: int | None) -> None:
        """Begin the next pass with `epoch`, unless the pass to be resumed contains that epoch."""
        if not is_integer(epoch) or epoch < 0:
            raise InvalidArgumentError(
                f"an epoch must be an integer of at least 0, found {epoch!r}"
            )

        def transition(record: EpochRecord) -> EpochRecord:
            following = self._following(record).start
            if following.resumes_with(epoch, num_epochs):
                return record
            return record.set_next(following.beginning_of(int(epoch)))

        self._change(transition)

    def _change(self, transition: Callable[[EpochRecord], EpochRecord]) -> None:
        def changed(record: EpochRecord) -> EpochRecord:
            record = transition(record)
            self.changes, self.loads = record.changes, record.loads
            return record

        self._own_record.update(changed)

    @property
    def num_joined(self) -> int:
        """Number of worker processes that have joined the latest iteration."""
        return len(self._own_record.read().joined.workers)

    @property
    def has_packs(self) -> bool:
        """Whether any item yielded since the latest epoch began is not a single sample."""
        return self._own_record.read().packs

    def record_packs(self) -> None:
        """Record that items are not single samples, so they must not be counted as samples."""
        self._own_record.update(EpochRecord.pack)

    @property
    def epoch_start(self) -> Position | None:
        """The position where the latest epoch began or will resume; None before the first epoch."""
        return self._own_record.read().epoch_start

    def begin(self, consumer: Consumer, joining: Worker | None = None) -> Usage:
        """Begin an iteration, or join another worker's iteration.

        The iteration begins a pass, or continues one.

        Parameters
        ----------
        consumer : Consumer
            The code that takes the batches.
        joining : Worker, optional
            The worker process that this is.
        """
        if joining is not None:
            self._iterations += 1
        group = None if joining is None else (joining.group, self._iterations)
        worker = 0 if joining is None else joining.number
        latest = self._latest

        # Ctrl-C may come before the record is stored. So this sets the attributes: a latest
        # iteration that the record does not have yet, and that has used nothing, changes nothing.
        def transition(record: EpochRecord) -> tuple[EpochRecord, Usage]:
            record, usage = record.begin(self._following(record), group, worker)
            usage.consumer = consumer
            # After a peek, the next iteration is still the first one that resumes.
            is_again = latest is not None and latest.is_resumed and latest.start == usage.start
            usage.is_resumed = usage.start.consumed > 0 and (self.is_loaded or is_again)
            self._latest = None if joining else usage
            return record, usage

        usage = (self._record if joining else self._own_record).change(transition)
        self.is_loaded = False
        if latest is not None and latest.changes == usage.changes:
            _warn_of_rows_left(latest, usage)
        self._record_pass()
        return usage

    def _record_pass(self) -> None:
        if self._on_pass is not None:
            self._on_pass(self)

    def enter(self, usage: Usage, position: Position) -> None:
        """Record that an iteration continues at `position`, which begins an epoch or resumes it.

        Of several workers, the one that is most epochs ahead determines the latest epoch.
        """
        self._own_record.update(lambda record: record.enter(usage, position))

    def reach(self, usage: Usage, epoch: int) -> None:
        """Record that an iteration has reached an epoch, so that the next one begins after it."""
        self._own_record.update(lambda record: record.reach(usage, epoch))

    def forget_order(self) -> None:
        """Drop the order set by a loaded state, unless the state's pass has yet to resume."""
        self._own_record.update(lambda record: record.forget_order(self._latest))

    def load_state_dict(
        self,
        state: object,
        options: ReaderOptions,
        *,
        splits: bool = False,
        skip_batches: int = 0,
    ) -> None:
        """Resume the next pass `skip_batches` batches after a state.

        The state may be within a batch if the loader `splits` it.

        Raises
        ------
        InvalidArgumentError
            If the pass has fewer batches left than are to be skipped.
        StateMismatchError
            If the state was taken from a different dataset, order or selection, or is not a state.
        NoDataAvailableError
            If too few rows remain for this world.
        """
        here = options.in_world()
        position = _skipped(read_state(state, here, splits=splits), skip_batches, here)
        # Of a plan whose numbers of batches are not known, ranks warn when they begin a pass.
        uneven = here.plan(position).unequal_because
        if uneven and not here.first_plan.unequal_because:
            warn_user(
                f"ranks that resume {here.dataset.url} here have different numbers of batches, by "
                f"one batch in an epoch, because {uneven}. len() is the largest number, and ranks "
                "with more batches may wait for the others forever: resume on another number of "
                "nodes, end each epoch after len() - 1 batches, or train within "
                "torch.distributed.algorithms.join.Join"
            )
        is_begun = position.consumed > 0 or position.first_epoch is not None
        epoch_start = position if is_begun else None
        self._change(lambda record: record.load(epoch_start, position))
        self.is_loaded, self.loaded = True, state_mapping(state)
        if position.consumed:
            self._record_pass()

    def resume(self, position: Position) -> None:
        """Resume the next pass at a position, in a copy or after an interruption."""
        self._change(lambda record: record.load(position, position))
        self.is_loaded, self.loaded = False, None

    def resume_as_worker(self, position: Position, next_epoch: int, worker: int) -> None:
        """Record that this worker process resumes at a position of its own, as each worker does."""
        following = position.beginning_of(next_epoch)
        self._record.update(lambda record: record.load(position, following, (worker,)))
        self._record_pass()


def _skipped(position: Position, batches: int, options: ReaderOptions) -> Position:
    """Return where a pass resumes once each rank has skipped `batches` batches.

    Raises
    ------
    InvalidArgumentError
        If the number is not an integer of at least 0, or the pass has fewer batches left.
    StateMismatchError
        If only reading shows where batches end.
    """
    if not is_integer(batches) or batches < 0:
        raise InvalidArgumentError(
            f"skip_batches must be an integer of at least 0, found {batches!r}"
        )
    if not batches:
        return position
    segment, count = Segment(options, position).seek(int(batches), f"skip_batches={batches}")
    reached = segment.plan.position(segment.plan.offset_after(count) or 0)
    return read_state(write_state(options, reached), options)


def _warn_of_rows_left(latest: Usage, usage: Usage) -> None:
    """Log a warning if the rest of the epoch of a loaded state is skipped."""
    if latest.rows_left and usage.start.epoch > latest.start.epoch:
        _logger.warning(
            "The first iteration after load_state_dict() was left within epoch %d, and the next "
            "one begins epoch %d, so at least %d rows of epoch %d are skipped. Iterate to the end "
            "of the resumed epoch, or load the state again before the next iteration. Only one "
            "batch may be taken without using up the epoch",
            latest.start.epoch,
            usage.start.epoch,
            latest.rows_left,
            latest.start.epoch,
        )
