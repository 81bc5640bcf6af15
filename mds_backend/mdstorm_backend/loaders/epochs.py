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

The values are stored in a `SharedRecord`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from multiprocessing import context
from typing import Any

from mdstorm_backend.base import is_integer, warn_user
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.loaders.consumer import Consumer, Usage
from mdstorm_backend.loaders.reader_options import ReaderOptions
from mdstorm_backend.loaders.segment import plan_of
from mdstorm_backend.loaders.shared_record import SharedRecord
from mdstorm_backend.loaders.state import read_state, skipped, write_state
from mdstorm_backend.order import Position, World
from mdstorm_backend.order.lanes import Lanes

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
    """

    def __init__(self) -> None:
        self._first: Callable[[], Usage] = Usage
        self._on_pass: Callable[[Any], None] | None = None
        #: ``begun`` is where the latest iteration or its latest epoch began, or the position that
        #: was loaded last. ``next`` is a position that was loaded or set, until an iteration
        #: begins there. ``reached`` is the highest epoch that iterations have reached since the
        #: latest one began, and ``number`` the number of iterations. ``joined`` describes the
        #: latest iteration by worker processes: its group, its workers and the position where it
        #: began. It is empty if there is no such iteration.
        self._record = SharedRecord(
            {
                "begun": None,
                "next": None,
                "reached": 0,
                "number": 0,
                "joined": {},
                "packs": False,
                "changes": 0,
                "loads": 0,
            }
        )
        #: Number of iterations that this process has begun as a worker.
        self._iterations = 0
        #: The latest iteration in this process.
        self._latest: Usage | None = None
        self.is_loaded = False
        self.changes = self.loads = 0

    def __getstate__(self) -> dict[str, Any]:
        """Return the state to pickle; a copy begins where the next iteration would begin here."""
        if context.get_spawning_popen() is not None:  # a worker process, which shares the record
            return self.__dict__
        content = self._own_record.read()
        if content["number"] or content["next"]:
            content["next"] = _stored(self._following(content).start)
        record = SharedRecord({**content, "joined": {}})
        return {**self.__dict__, "_record": record, "_latest": None}

    def follow(self, options: ReaderOptions) -> None:
        """Use the first iteration that `options` determine, and call their `on_pass`."""
        self._first, self._on_pass = options.first, options.on_pass

    @property
    def _own_record(self) -> SharedRecord:
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

    def _following(self, record: Mapping[str, Any]) -> Usage:
        if record["next"] is not None:
            return Usage(_position_of(record["next"]))
        if not record["number"]:
            return self._first()
        latest = self._latest
        # The samples of an iteration in other processes are used.
        is_here = latest is not None and latest.number >= record["number"]
        if latest is None or not (is_here and latest.is_peek):
            begun = _position_of(record["begun"])
            return Usage(begun.beginning_of(record["reached"] + 1), is_first=False)
        return Usage(latest.start, is_first=latest.is_first and not latest.used)

    def set_next(self, epoch: int, num_epochs: int | None) -> None:
        """Begin the next pass with `epoch`, unless the pass to be resumed contains that epoch."""
        if not is_integer(epoch) or epoch < 0:
            raise InvalidArgumentError(
                f"an epoch must be an integer of at least 0, found {epoch!r}"
            )

        def edit(record: dict[str, Any]) -> None:
            following = self._following(record).start
            if not following.resumes_with(epoch, num_epochs):
                record["next"] = _stored(following.beginning_of(int(epoch)))
                record["changes"] += 1

        self._change(edit)

    def _change(self, edit: Callable[[dict[str, Any]], None]) -> None:
        def edit_and_count(record: dict[str, Any]) -> None:
            edit(record)
            self.changes, self.loads = record["changes"], record["loads"]

        self._own_record.change(edit_and_count)

    @property
    def num_joined(self) -> int:
        """Number of worker processes that have joined the latest iteration."""
        return len(self._own_record.read()["joined"].get("workers", ()))

    @property
    def has_packs(self) -> bool:
        """Whether any item yielded since the latest epoch began is not a single sample."""
        return bool(self._own_record.read()["packs"])

    def record_packs(self) -> None:
        """Record that items are not single samples, so they must not be counted as samples."""
        self._own_record.change(lambda record: record.update(packs=True))

    @property
    def begun(self) -> Position | None:
        """The position where the latest epoch began or will resume; None before the first epoch."""
        begun = self._own_record.read()["begun"]
        return None if begun is None else _position_of(begun)

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
        latest = self._latest

        # Ctrl-C may come before the record is stored. So this sets the attributes: a latest
        # iteration that the record does not have yet, and that has used nothing, changes nothing.
        def edit(record: dict[str, Any]) -> Usage:
            group = None if joining is None else self._group(joining)
            joined, loads = record["joined"], record["loads"]
            workers = joined.get("workers", [])
            # A worker joins an iteration once. Persistent workers begin several iterations in turn.
            if joining and joined.get("group") == group and joining.number not in workers:
                record["joined"] = {**joined, "workers": [*workers, joining.number]}
                start, changes = _position_of(joined["start"]), joined["changes"]
                self._latest = None
                return Usage(start, False, record["number"], changes, loads, consumer)
            usage = self._following(record)
            position = replace(usage.start, first_epoch=usage.start.pass_epoch)
            changes, number = record["changes"], record["number"] + 1
            record.update(begun=_stored(position), reached=position.epoch, next=None)
            record.update(number=number, joined={}, packs=False)
            if joining is not None:
                record["joined"] = {
                    "group": group,
                    "workers": [joining.number],
                    "start": record["begun"],
                    "changes": changes,
                }
            usage = Usage(position, usage.is_first, number, changes, loads, consumer)
            # After a peek, the next iteration is still the first one that resumes.
            is_again = latest is not None and latest.is_resumed and latest.start == position
            usage.is_resumed = position.consumed > 0 and (self.is_loaded or is_again)
            self._latest = None if joining else usage
            return usage

        usage = (self._record if joining else self._own_record).change(edit)
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

        def edit(record: dict[str, Any]) -> None:
            begun = record["begun"]
            is_latest = (record["number"], record["loads"]) == (usage.number, usage.loads)
            if is_latest and begun and position.epoch >= begun["epoch"]:
                record["begun"] = _stored(position)
                if position.epoch > begun["epoch"]:
                    record["packs"] = False
            _reach(record, usage, position.epoch)

        self._own_record.change(edit)

    def reach(self, usage: Usage, epoch: int) -> None:
        """Record that an iteration has reached an epoch, so that the next one begins after it."""
        self._own_record.change(lambda record: _reach(record, usage, epoch))

    def _group(self, worker: Worker) -> list[int | None]:
        """Return a worker's group, and the number of its current iteration."""
        return [worker.group, self._iterations]

    def forget_order(self) -> None:
        """Drop the order set by a loaded state, unless the state's pass has yet to resume."""

        def edit(record: dict[str, Any]) -> None:
            begun, following = record["begun"], self._following(record).start
            if not record["number"] and not record["next"]:
                return
            if begun is None or _at(begun) != (following.epoch, following.consumed):
                following = replace(following, num_canonical_nodes=None, seed=None)
                record["next"] = _stored(following)

        self._own_record.change(edit)

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
        position = read_state(state, here, splits=splits)
        position = skipped(position, skip_batches, here)
        # Of a plan whose numbers of batches are not known, ranks warn when they begin a pass.
        uneven = plan_of(here, position).unequal_because
        if uneven and not plan_of(here).unequal_because:
            warn_user(
                f"ranks that resume {here.dataset.url} here have different numbers of batches, by "
                f"one batch in an epoch, because {uneven}. len() is the largest number, and ranks "
                "with more batches may wait for the others forever: resume on another number of "
                "nodes, end each epoch after len() - 1 batches, or train within "
                "torch.distributed.algorithms.join.Join"
            )
        is_begun = position.consumed > 0 or position.first_epoch is not None

        def edit(record: dict[str, Any]) -> None:
            following = _stored(position)
            record.update(begun=following if is_begun else None, next=following)
            _forget_iteration(record)

        self._change(edit)
        self.is_loaded = True
        if position.consumed:
            self._record_pass()

    def resume(self, position: Position) -> None:
        """Resume the next pass at a position, in a copy or after an interruption."""

        def edit(record: dict[str, Any]) -> None:
            record.update(begun=_stored(position), next=_stored(position))
            _forget_iteration(record)

        self._change(edit)
        self.is_loaded = False

    def resume_as_worker(self, position: Position, next_epoch: int, worker: int) -> None:
        """Record that this worker process resumes at a position of its own, as each worker does."""

        def edit(record: dict[str, Any]) -> None:
            following = _stored(position.beginning_of(next_epoch))
            record.update(begun=_stored(position), next=following)
            _forget_iteration(record)
            record["joined"] = {"workers": [worker]}

        self._record.change(edit)
        self._record_pass()


def _forget_iteration(record: dict[str, Any]) -> None:
    """Let the running iterations no longer affect a record, because a state was loaded."""
    changes, loads = record["changes"] + 1, record["loads"] + 1
    record.update(joined={}, packs=False, changes=changes, loads=loads)


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


def _reach(record: dict[str, Any], usage: Usage, epoch: int) -> None:
    if record["changes"] == usage.changes:
        record["reached"] = max(record["reached"], epoch)


def _at(found: Mapping[str, Any]) -> tuple[int, int]:
    return found["epoch"], found["consumed"]


def _stored(position: Position) -> dict[str, Any]:
    """Return the fields of a position, 30 times as fast as `dataclasses.asdict`."""
    return dict(vars(position))


def _position_of(found: Mapping[str, Any]) -> Position:
    return Position(**{**found, "lanes": tuple(Lanes(*lanes) for lanes in found["lanes"])})
