"""`Epochs`: where the next iteration over a dataset begins, in a process and its workers.

All loaders over a dataset share its `Epochs`, which holds the *beginning*: the position where the
next iteration begins. `Epochs.open` starts a loader's pass there. `Epochs.move` moves the
beginning, but only once the pass *counts*, so a rank that peeks at a batch is not ahead of the
others.

Iterations over samples count from their first sample, so `Epochs.begin` moves the beginning
immediately, and `Epochs.advance` moves it on in each further epoch. The workers of a plain
``DataLoader`` have copies of the dataset and also call `begin`. The first worker in a group begins
the iteration, and the others join it. A worker may be epochs ahead of one that has not joined yet,
so each worker finds its further epochs by itself, and records them with `Epochs.reach`.

The values are stored in a `SharedRecord`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from mdstorm_backend.base import is_integer
from mdstorm_backend.base.threads import WorkAhead
from mdstorm_backend.errors import InvalidArgumentError, StateMismatchError
from mdstorm_backend.loaders.reader_options import ReaderOptions
from mdstorm_backend.loaders.segment import Batching
from mdstorm_backend.loaders.shared_record import SharedRecord
from mdstorm_backend.loaders.state import read_state
from mdstorm_backend.order import Position, World
from mdstorm_backend.order.lanes import Lanes


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
    """The latest epoch of a dataset, and where the next iteration begins.

    Attributes
    ----------
    tried : set of (int, int)
        Epoch and consumed samples of each beginning where an iteration was left before it counted.
    """

    def __init__(self) -> None:
        self._first_epoch: Callable[[], int] = int
        self.tried: set[tuple[int, int]] = set()
        #: ``start`` is where the latest iteration began, or the position that was loaded last.
        #: ``next`` is where the next iteration begins. Both are None at first. ``moves`` counts the
        #: changes to ``next``. ``joined`` describes the latest iteration by worker processes: its
        #: group, its workers, the position where it began, and ``moves`` after its latest change.
        #: It is empty if there is no such iteration.
        self._record = SharedRecord(
            {"start": None, "next": None, "moves": 0, "joined": {}, "packs": False}
        )
        self.ahead: WorkAhead[Any] = WorkAhead()
        #: Number of iterations that this process has begun as a worker.
        self._iterations = 0
        #: Whether a state has been loaded that no iteration has resumed from yet.
        self.is_loaded = False

    def follow(self, options: ReaderOptions) -> None:
        """Begin with the first epoch of `options`, and share the options' set `tried`, if any."""
        self._first_epoch = options.first_epoch
        if options.tried is not None:
            self.tried = options.tried

    @property
    def _own_record(self) -> SharedRecord:
        """The record of this process and its workers; each rank has its own."""
        self._record.part()
        return self._record

    @property
    def next_position(self) -> Position:
        """The position at which the next pass begins or resumes."""
        return self._next(self._own_record.read())

    def set_next(self, epoch: int, num_epochs: int | None) -> None:
        """Begin the next pass with `epoch`, unless the pass to be resumed contains that epoch."""
        if not is_integer(epoch) or epoch < 0:
            raise InvalidArgumentError(
                f"an epoch must be an integer of at least 0, found {epoch!r}"
            )

        def edit(record: dict[str, Any]) -> None:
            following = self._next(record)
            is_new = epoch != following.epoch or record["next"] is None
            if is_new and not following.resumes_with(epoch, num_epochs):
                record["next"] = _stored(following.beginning_of(int(epoch)))
            # A peek that counts later, because its iterator was kept, must not change this.
            record["moves"] += 1

        self._own_record.change(edit)

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
        start = self._own_record.read()["start"]
        return None if start is None else _position_of(start)

    def begin(self, joining: Worker | None = None) -> tuple[Position, int]:
        """Begin an iteration over samples, or join another worker's iteration.

        Return the position where it begins, and the number of moves so far, for `advance`. The
        iteration begins a pass, or continues the pass of a loaded state.
        """
        if joining is not None:
            self._iterations += 1

        def edit(record: dict[str, Any]) -> tuple[Position, int]:
            joined = record["joined"]
            workers = joined.get("workers", [])
            group = None if joining is None else self._group(joining)
            # A worker joins an iteration once. Persistent workers begin several iterations in turn.
            if joining and joined.get("group") == group and joining.number not in workers:
                record["joined"] = {**joined, "workers": [*workers, joining.number]}
                return _position_of(joined["start"]), record["moves"]
            position = self._next(record)
            position = replace(position, first_epoch=position.pass_epoch)
            moves = self._move_to(record, position, record["moves"])
            record["joined"] = {}
            if joining is not None:
                record["joined"] = {
                    "group": group,
                    "workers": [joining.number],
                    "start": record["start"],
                    "moves": moves,
                }
            return position, moves

        return (self._record if joining else self._own_record).change(edit)

    def advance(self, moves: int, before: Position, position: Position) -> int:
        """Record that an iteration in this process, at `before`, continues with another epoch.

        The next iteration then begins after this epoch, unless `moves` is outdated because
        `set_epoch` or another iteration has moved the beginning. Return the new number of moves.
        """

        def edit(record: dict[str, Any]) -> int:
            start = record["start"]
            is_latest = start and _at(start) == (before.epoch, before.consumed)
            if is_latest or record["moves"] == moves:
                return self._move_to(record, position, moves)
            return moves

        return self._own_record.change(edit)

    def reach(self, position: Position, worker: Worker) -> None:
        """Record that a worker's iteration has reached the beginning of another epoch.

        This does nothing if another worker has already reached that epoch, or if another iteration
        has begun. If the beginning has been changed, it stays as it is.
        """

        def edit(record: dict[str, Any]) -> None:
            joined = record["joined"]
            is_latest = joined.get("group") == self._group(worker)
            if is_latest and position.epoch > record["start"]["epoch"]:
                moves = self._move_to(record, position, joined["moves"])
                record["joined"] = {**joined, "moves": moves}

        self._record.change(edit)

    def _group(self, worker: Worker) -> list[int | None]:
        """Return a worker's group, and the number of its current iteration."""
        return [worker.group, self._iterations]

    @staticmethod
    def _move_to(record: dict[str, Any], position: Position, moves: int) -> int:
        """Record where an epoch begins, and that the next iteration begins after it.

        If `moves` is outdated, where the next iteration begins does not change. Return the new
        number of moves, or the outdated one.
        """
        record.update(start=_stored(position), packs=False)
        if record["moves"] != moves:
            return moves
        record.update(next=_stored(position.beginning_of(position.epoch + 1)), moves=moves + 1)
        return moves + 1

    def open(self, resumes: Position | None = None) -> tuple[Position, int]:
        """Return where an iteration starts, and the number of moves so far, for `move`.

        The beginning does not move until the iteration counts: see `move`.

        Parameters
        ----------
        resumes : Position, optional
            Where the iteration starts instead of the beginning.
        """

        def edit(record: dict[str, Any]) -> tuple[Position, int]:
            position = resumes or self._next(record)
            position = replace(position, first_epoch=position.pass_epoch)
            record.update(start=_stored(position), joined={}, packs=False)
            return position, record["moves"]

        return self._own_record.change(edit)

    def move(self, moves: int, position: Position) -> int:
        """Set where the next iteration begins, unless `moves` is outdated; return the new count."""

        def edit(record: dict[str, Any]) -> int:
            if record["moves"] != moves:
                return moves
            record.update(next=_stored(position), moves=moves + 1)
            self.tried.clear()
            return moves + 1

        return self._own_record.change(edit)

    def record_begun(self, before: Position, position: Position) -> None:
        """Replace the position where the latest iteration began, if it is still `before`."""

        def edit(record: dict[str, Any]) -> None:
            begun = record["start"]
            if begun and _at(begun) == (before.epoch, before.consumed):
                record["start"] = _stored(position)

        self._own_record.change(edit)

    def forget_order(self) -> None:
        """Drop the order set by a loaded state, unless the state's pass has yet to resume."""

        def edit(record: dict[str, Any]) -> None:
            start, following = record["start"], record["next"]
            if following and _at(following) != (start and _at(start)):
                record["next"] = {**following, "num_canonical_nodes": None, "seed": None}

        self._own_record.change(edit)

    def load_state_dict(
        self, state: object, options: ReaderOptions, batching: Batching, *, splits: bool = False
    ) -> None:
        """Resume the next pass from a state, which may be within a batch if the loader `splits` it.

        Raises
        ------
        StateMismatchError
            If the state was taken from a different dataset, order or selection, or is not a state.
        NoDataAvailableError
            If too few rows remain for this world.
        """
        here = options.in_world()
        position = read_state(state, here, batching)
        if position.skip and not splits:
            raise StateMismatchError(
                f"the state was taken after {position.skip} items of a batch, as by make_reader, "
                "but here whole batches are read: load it into a reader with the arguments of that "
                "run, or start again without it"
            )
        if position.consumed:
            here.record_pass(position.pass_epoch)
        is_begun = position.consumed > 0 or position.first_epoch is not None
        start = _stored(position) if is_begun else None
        following = _stored(position)

        def edit(record: dict[str, Any]) -> None:
            record.update(start=start, next=following, joined={}, packs=False)
            record["moves"] += 1

        self._own_record.change(edit)
        self.is_loaded = True
        self.tried.clear()

    def resume_as_worker(self, position: Position, next_epoch: int, worker: int) -> None:
        """Record that this worker process resumes at a position of its own, as each worker does."""
        start, following = _stored(position), _stored(position.beginning_of(next_epoch))

        def edit(record: dict[str, Any]) -> None:
            record.update(start=start, next=following, joined={"workers": [worker]})
            record["moves"] += 1

        self._record.change(edit)

    def _next(self, record: Mapping[str, Any]) -> Position:
        following = record["next"]
        return Position(self._first_epoch()) if following is None else _position_of(following)


def _at(found: Mapping[str, Any]) -> tuple[int, int]:
    return found["epoch"], found["consumed"]


def _stored(position: Position) -> dict[str, Any]:
    """Return the fields of a position, 30 times as fast as `dataclasses.asdict`."""
    return dict(vars(position))


def _position_of(found: Mapping[str, Any]) -> Position:
    return Position(**{**found, "lanes": tuple(Lanes(*lanes) for lanes in found["lanes"])})
