"""A worker's part of the samples of a `StreamingDataset`, and its position in that part.

Workers of PyTorch's ``DataLoader`` have no state. Torchdata's ``StatefulDataLoader`` requests a
state from each worker after every batch, and passes it to the same worker on resumption.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Iterator, Mapping
from multiprocessing.connection import wait
from typing import Any

from mdstorm_backend.loaders.epochs import Worker
from mdstorm_backend.loaders.passes import Schedule
from mdstorm_backend.loaders.rest import Rest
from mdstorm_backend.loaders.state import check_equal, damaged, number, write_state

#: Key of a state that holds the worker's number and position.
_WORKER = "worker"
#: Id of the guarded process; a fork has another id and is not guarded yet.
_guarded: list[int] = []


class WorkerPart:
    """A worker's part of an iteration, and its position. Creating it begins the iteration.

    Parameters
    ----------
    schedule : Schedule
        The schedule of passes over the dataset.
    batch_size : int or None
        The batch size of the dataset.
    worker : Worker
        This worker's number among the workers.
    state : mapping, optional
        The state from which to resume; without it, a pass begins.

    Attributes
    ----------
    yielded : int
        Number of samples already yielded of the current batch.
    noted : int
        See `OpenedDataset`; negative for samples of earlier batches.

    Raises
    ------
    StateMismatchError
        If the state is of another worker, dataset, order or world.
    """

    def __init__(
        self,
        schedule: Schedule,
        batch_size: int | None,
        worker: Worker,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        self._schedule = schedule
        self._worker = worker
        self._batch_size = batch_size
        self._part = worker.number
        self._state = state
        self.yielded = self.noted = 0
        if state is None:
            self._rests = schedule.own_rests(batch_size, worker)
            self._rest = next(self._rests, None)
            return
        here = self._here()
        there = state["mdstorm"][_WORKER]
        if missing := [key for key in here if key not in there]:
            raise damaged(f"it has no {missing} of its worker")
        check_equal(there, here, schedule.options.dataset.url)
        self._part, self.yielded = number(there, "part"), number(there, "rows")
        self.noted = self.yielded
        self._rests = schedule.rests_of_worker(state, batch_size, worker)
        self._rest = next(self._rests, None)

    def rests(self) -> Iterator[tuple[Rest, int]]:
        """Yield each `Rest` to read, with the number of this worker's part of it."""
        while self._rest is not None:
            yield self._rest, self._part
            following = next(self._rests, None)
            if following is None:  # keep the last one: the state is that of the end
                return
            self._rest, self._part, self.yielded = following, self._worker.number, 0

    def advance(self, mark: Any) -> None:
        """Record that a whole batch was delivered; `mark` is its mark in the block."""
        assert self._rest is not None
        self._rest, self._part = self._rest.after(self._part, mark)
        self.noted -= self.yielded
        self.yielded = 0

    def state_dict(self) -> dict[str, Any]:
        """Return the state of this worker."""
        if self._rest is None:  # there was nothing to read
            return self._schedule.state_dict(0, True) if self._state is None else {**self._state}
        rest = self._rest
        state = write_state(rest.options, rest.batching, rest.place, skipped=rest.skipped)
        place = {**self._here(), "part": self._part, "rows": self.yielded}
        return {**state, "mdstorm": {**state["mdstorm"], _WORKER: place}}

    def _here(self) -> dict[str, Any]:
        """Return the values that must be equal when a state is taken and when it is loaded."""
        return {
            "number": self._worker.number,
            "num_workers": self._worker.count,
            "batch_size": self._batch_size,
            "world_size": self._schedule.options.in_world(self._worker.world).order.world_size,
        }


def is_of_worker(state: object) -> bool:
    """Whether a state is of one worker process rather than of a whole loader."""
    ours = state.get("mdstorm") if isinstance(state, Mapping) else None
    return isinstance(ours, Mapping) and isinstance(ours.get(_WORKER), Mapping)


def end_with_parent() -> None:
    """End this process as soon as its parent process has ended, in whatever way.

    PyTorch's own workers check for their parent every few seconds, when they are idle. Workers that
    had not begun when the parent ended mistake its successor for it.

    Only processes of `multiprocessing` have such a parent; in others, nothing happens.
    """
    parent = multiprocessing.parent_process()
    if parent is None or os.getpid() in _guarded:
        return
    _guarded[:] = [os.getpid()]
    threading.Thread(
        target=_watch, args=(parent.sentinel,), name="mdstorm-guard", daemon=True
    ).start()


def _watch(sentinel: int) -> None:
    wait([sentinel])
    os._exit(1)
