"""`EpochRecord`: how far a process and its workers have iterated, and where they continue.

It is the content of the `SharedRecord` of `Epochs`. A method that changes something returns another
record and has no other effect, because `SharedRecord.change` may call it again.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mdstorm_backend.loaders.consumer import Usage
from mdstorm_backend.order import Position

#: A group of workers, and the number of an iteration among those that its workers have begun.
Group = tuple[int | None, int]


@dataclass(frozen=True)
class Joined:
    """The latest iteration by worker processes; empty if there is none.

    Attributes
    ----------
    group : (int, int) or None
        The group of workers, and the number of their iteration.
    workers : tuple of int
        The workers that have joined the iteration.
    start : Position
        Where the iteration began.
    changes : int
        The record's `changes` when the iteration began.
    """

    group: Group | None = None
    workers: tuple[int, ...] = ()
    start: Position = Position()  # noqa: RUF009  # frozen
    changes: int = 0


@dataclass(frozen=True)
class EpochRecord:
    """How far the iterations over a dataset have come, and where the next one begins.

    Attributes
    ----------
    epoch_start : Position or None
        Where the latest iteration or its latest epoch began, or the position loaded last.
    next : Position or None
        A position that was loaded or set, until an iteration begins there.
    reached : int
        The highest epoch that iterations have reached since the latest one began.
    number : int
        Number of iterations.
    joined : Joined
        The latest iteration by worker processes.
    packs : bool
        Whether any item yielded since the latest epoch began is not a single sample.
    changes, loads : int
        How often a state was loaded or an epoch set, and how often a state was loaded.
    """

    epoch_start: Position | None = None
    next: Position | None = None
    reached: int = 0
    number: int = 0
    joined: Joined = Joined()
    packs: bool = False
    changes: int = 0
    loads: int = 0

    def following(self, latest: Usage | None) -> Usage | None:
        """Return the next iteration, which has not begun; None if it is the first one.

        Parameters
        ----------
        latest : Usage or None
            The latest iteration in this process, which only this process knows.
        """
        if self.next is not None:
            return Usage(self.next)
        if self.epoch_start is None:
            return None
        # The samples of an iteration in other processes are used.
        if latest is None or latest.number < self.number or not latest.is_peek:
            return Usage(self.epoch_start.beginning_of(self.reached + 1), is_first=False)
        return Usage(latest.start, is_first=latest.is_first and not latest.used)

    def begin(
        self, following: Usage, group: Group | None = None, worker: int = 0
    ) -> tuple[EpochRecord, Usage]:
        """Return the record once an iteration has begun, and that iteration.

        A worker joins the iteration of its group, unless it has joined it already: persistent
        workers begin several iterations in turn.

        Parameters
        ----------
        following : Usage
            The next iteration.
        group, worker : optional
            The group and number of the worker that begins the iteration; by default, this process
            is not a worker.
        """
        joined = self.joined
        if group is not None and group == joined.group and worker not in joined.workers:
            record = replace(self, joined=replace(joined, workers=(*joined.workers, worker)))
            return record, Usage(joined.start, False, self.number, joined.changes, self.loads)
        start = replace(following.start, first_epoch=following.start.pass_epoch)
        joined = Joined() if group is None else Joined(group, (worker,), start, self.changes)
        usage = Usage(start, following.is_first, self.number + 1, self.changes, self.loads)
        record = replace(
            self, epoch_start=start, next=None, reached=start.epoch, number=usage.number
        )
        return replace(record, joined=joined, packs=False), usage

    def enter(self, usage: Usage, position: Position) -> EpochRecord:
        """Return the record once an iteration continues at the beginning of an epoch.

        Of several workers, the one that is most epochs ahead determines the latest epoch.
        """
        record, latest = self, self.epoch_start
        is_latest = (self.number, self.loads) == (usage.number, usage.loads)
        if is_latest and latest is not None and position.epoch >= latest.epoch:
            packs = self.packs and position.epoch == latest.epoch
            record = replace(self, epoch_start=position, packs=packs)
        return record.reach(usage, position.epoch)

    def reach(self, usage: Usage, epoch: int) -> EpochRecord:
        """Return the record once an iteration has reached an epoch."""
        if self.changes != usage.changes or epoch <= self.reached:
            return self
        return replace(self, reached=epoch)

    def pack(self) -> EpochRecord:
        """Return the record once an item was not a single sample, which each such item calls."""
        return self if self.packs else replace(self, packs=True)

    def set_next(self, position: Position) -> EpochRecord:
        """Return the record once the next iteration was set to begin at a position."""
        # A loaded position no longer counts if no iteration has begun there.
        epoch_start = self.epoch_start if self.next is None else None
        return replace(self, epoch_start=epoch_start, next=position, changes=self.changes + 1)

    def load(
        self, epoch_start: Position | None, following: Position, workers: tuple[int, ...] = ()
    ) -> EpochRecord:
        """Return the record once a state was loaded; running iterations no longer affect it."""
        changes, loads = self.changes + 1, self.loads + 1
        record = replace(
            self, epoch_start=epoch_start, next=following, changes=changes, loads=loads
        )
        return replace(record, joined=Joined(workers=workers), packs=False)

    def forget_order(self, latest: Usage | None) -> EpochRecord:
        """Return the record without the order of a loaded state, unless it has yet to resume."""
        before, following = self.epoch_start, self.following(latest)
        if following is None:
            return self
        start = following.start
        if before is not None and (before.epoch, before.consumed) == (start.epoch, start.consumed):
            return self
        return replace(self, next=replace(start, num_canonical_nodes=None, seed=None))

    def copied(self, latest: Usage | None) -> EpochRecord:
        """Return the record of a copy of the dataset, which begins where this process would."""
        following = self.following(latest)
        start = None if following is None else following.start
        return replace(self, next=start, joined=Joined())
