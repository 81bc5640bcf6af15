"""Count the epochs of a dataset, in its process and in workers that have copies of it.

The record that they share is a file without a name: it is inherited, so nothing can collide, and it
is gone with the last process that has it, however that ends. Other processes that inherit it, such
as the ranks that a program starts, are to `part` from it before they use it.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from multiprocessing import context, reduction
from typing import Any

from mdstorm_backend.base.checks import is_integer
from mdstorm_backend.base.threads import WorkAhead
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.order import Place, World
from mdstorm_backend.order.lanes import Lanes


@dataclass(frozen=True)
class Worker:
    """One of the processes that share the samples of a dataset without a loader of ours.

    Attributes
    ----------
    number, count : int
        Which of how many.
    group : int
        The same for those that belong together, and for no others.
    world : World or None
        The world as the process saw it that has started them; None if it did not say, or is this.
    """

    number: int = 0
    count: int = 1
    group: int | None = None
    world: World | None = None


class Epochs:
    """Which epoch of a dataset was begun last, and where the next pass begins.

    Attributes
    ----------
    first_epoch : callable
        Says which one is begun first; by default number 0.
    """

    def __init__(self) -> None:
        self.first_epoch: Callable[[], int] = int
        #: ``start`` is the place that was begun or loaded last, ``next`` the one to begin; None
        #: before anybody has said anything.
        self._record = SharedRecord({"start": None, "next": None, "joined": [], "packs": False})
        self.ahead: WorkAhead[Any] = WorkAhead()
        self._begun = 0
        #: The record before the last beginning, unless somebody has said since what comes next.
        self._before: dict[str, Any] | None = None

    @property
    def _own_record(self) -> SharedRecord:
        """The record of this process and its workers: ranks count by themselves."""
        self._record.part()
        return self._record

    @property
    def next_place(self) -> Place:
        """Where the next pass begins, or goes on."""
        return self._next(self._own_record.read())

    def set_next(self, epoch: int, num_epochs: int | None) -> None:
        """Let the next pass begin with an epoch, unless that belongs to one that is to go on."""
        if not is_integer(epoch) or epoch < 0:
            raise InvalidArgumentError(
                f"an epoch must be an integer of at least 0, found {epoch!r}"
            )
        self._before = None
        with self._own_record.changing() as record:
            following = self._next(record)
            first = following.pass_epoch
            under_way = range(first, first + (num_epochs or 1))
            goes_on = following.consumed and not following.is_end and epoch in under_way
            if (epoch != following.epoch or record["next"] is None) and not goes_on:
                record["next"] = asdict(following.beginning_of(int(epoch)))

    @property
    def num_joined(self) -> int:
        """Number of worker processes that read the epoch that was begun last."""
        joined = self._own_record.read()["joined"]
        return len(joined[1]) if joined else 0

    @property
    def has_packs(self) -> bool:
        """Whether what was read since the last beginning came as items that are not samples."""
        return bool(self._own_record.read()["packs"])

    def note_packs(self) -> None:
        """Note that items are not one sample each."""
        with self._own_record.changing() as record:
            record["packs"] = True

    @property
    def begun(self) -> Place | None:
        """The place that was begun last, or is to go on; None before the first one."""
        start = self._own_record.read()["start"]
        return None if start is None else _place(start)

    def begin(self, joining: Worker | None = None, first_epoch: int | None = None) -> Place:
        """Begin the next epoch; with other workers of one group, the one that they begin.

        It belongs to the pass that has begun with `first_epoch`, and otherwise begins one, unless
        a state says something else.
        """
        self._begun += 1
        with (self._record if joining else self._own_record).changing() as record:
            self._before = None if joining else dict(record)
            group, workers = record["joined"] or (None, [])
            # A worker takes part in an epoch once. Persistent ones begin several in turn.
            mine = None if joining is None else [joining.group, self._begun]
            if joining is None or group != mine or joining.number in workers:
                place = self._next(record)
                first = place.epoch if first_epoch is None else first_epoch
                if place.first_epoch is None:
                    place = replace(place, first_epoch=first)
                record["start"] = asdict(place)
                record["next"] = asdict(place.beginning_of(place.epoch + 1))
                workers, record["packs"] = [], False
            record["joined"] = [] if joining is None else [mine, [*workers, joining.number]]
            return _place(record["start"])

    def toggle(self) -> None:
        """Take back the last beginning, or undo that, unless somebody said what comes next."""
        if (before := self._before) is not None:
            with self._own_record.changing() as record:
                self._before = dict(record)
                record.update(before)

    def note_begun(self, place: Place) -> None:
        """Note what is known of a place that was begun, unless another one was since."""
        with self._own_record.changing() as record:
            begun = record["start"]
            if begun and (begun["epoch"], begun["consumed"]) == (place.epoch, place.consumed):
                record["start"] = asdict(place)

    def note_epoch(self, before: int, epoch: int) -> None:
        """Note that a pass came from one epoch to another, unless somebody said what is next."""
        with self._own_record.changing() as record:
            following = self._next(record)
            if following == following.beginning_of(before + 1):
                record["next"] = asdict(following.beginning_of(epoch + 1))

    def forget_order(self) -> None:
        """Let the arguments decide again, and not a state, unless that is still to go on."""
        with self._own_record.changing() as record:
            if record["next"] not in (None, record["start"]):
                record["next"] = {**record["next"], "num_canonical_nodes": None, "seed": None}

    def go_on(self, place: Place, *, is_begun: bool = True) -> None:
        """Let the next pass go on at a place."""
        self._before = None
        with self._own_record.changing() as record:
            record["start"] = asdict(place) if is_begun else None
            record["next"], record["joined"], record["packs"] = asdict(place), [], False

    def go_on_as_worker(self, place: Place, next_epoch: int, worker: int) -> None:
        """Note that a worker process goes on at a place by itself, as others do with theirs."""
        with self._record.changing() as record:
            record["start"] = asdict(place)
            record["next"] = asdict(place.beginning_of(next_epoch))
            record["joined"] = [[None, 0], [worker]]

    def _next(self, record: Mapping[str, Any]) -> Place:
        return Place(self.first_epoch()) if record["next"] is None else _place(record["next"])


def _place(found: Mapping[str, Any]) -> Place:
    return Place(**{**found, "lanes": tuple(Lanes(*lanes) for lanes in found["lanes"])})


#: Seconds after which a thread goes on though another one of a forked process held the lock.
_PATIENCE = 1.0


class SharedRecord:
    """A dict of plain values, one for this process and the workers that inherit it.

    Forked and spawned processes have it, and share it until they `part`. Any other copy, by `copy`
    or `pickle`, is a record of its own, with the content of the moment.

    Parameters
    ----------
    content : dict
        What it holds at first; plain values.
    """

    def __init__(self, content: dict[str, Any]) -> None:
        self._open(None, os.getpid(), content)

    def _open(self, handle: int | None, owner: int, content: dict[str, Any]) -> None:
        self._handle = handle
        self._owner = owner
        #: The content in memory; and later that with which a process parts that has inherited it.
        self._content = content
        self._threads = threading.Lock()
        self._close = weakref.finalize(self, _close, handle)
        _records.add(self)

    def _share(self) -> int:
        """Return the handle of the file, made if there is none yet."""
        if self._handle is None:
            handle, name = tempfile.mkstemp(prefix="mdstorm-")
            os.unlink(name)
            self._handle = handle
            self._close = weakref.finalize(self, _close, handle)
            self._write(handle, json.dumps(self._content).encode())
        return self._handle

    def __reduce__(self) -> tuple[Any, ...]:
        if context.get_spawning_popen() is not None:
            self.part()
            return _inherited, (reduction.DupFd(self._share()), self._owner, self.read())
        return SharedRecord, (self.read(),)

    def part(self) -> None:
        """Go on with a record of this process's own, as it was when this one inherited it.

        That does nothing in the process that made it, and in workers of a ``DataLoader``.
        """
        if self._owner == os.getpid() or _is_worker():
            return
        self._close()
        self._open(None, os.getpid(), self._content)

    def pass_on(self) -> None:
        """Note the content for a process that is going to inherit it."""
        self.part()
        self._share()
        self._content = self.read()

    def read(self) -> dict[str, Any]:
        """Return the content."""
        with self.changing() as content:
            return content

    @contextmanager
    def changing(self) -> Iterator[dict[str, Any]]:
        """Hold the record, and store what the dict then is that this yields."""
        locked = self._threads.acquire(timeout=_PATIENCE)
        handle = self._handle
        try:
            if handle is None:
                content = json.loads(json.dumps(self._content))
                yield content
                self._content = content
                return
            # The system gives it back when a process ends.
            fcntl.lockf(handle, fcntl.LOCK_EX)
            before = os.pread(handle, os.fstat(handle).st_size, 0)
            content = json.loads(before)
            yield content
            after = json.dumps(content).encode()
            if after != before:
                self._write(handle, after)
        finally:
            if handle is not None:
                fcntl.lockf(handle, fcntl.LOCK_UN)
            if locked:
                self._threads.release()

    @staticmethod
    def _write(handle: int, data: bytes) -> None:
        os.pwrite(handle, data, 0)
        os.ftruncate(handle, len(data))


def _close(handle: int | None) -> None:
    if handle is not None:
        os.close(handle)


def _inherited(handle: Any, owner: int, content: dict[str, Any]) -> SharedRecord:
    record = SharedRecord.__new__(SharedRecord)
    record._open(handle.detach(), owner, content)
    return record


def _is_worker() -> bool:
    data = sys.modules.get("torch.utils.data")
    return data is not None and data.get_worker_info() is not None


def _pass_all_on() -> None:
    for record in list(_records):
        record.pass_on()


#: Those of this process.
_records: weakref.WeakSet[SharedRecord] = weakref.WeakSet()

os.register_at_fork(before=_pass_all_on)
