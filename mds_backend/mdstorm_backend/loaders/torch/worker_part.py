"""A worker's part of the samples of a `StreamingDataset`, and where it stands there.

Workers of PyTorch's own loader have no state. That of torchdata, ``StatefulDataLoader``, asks each
worker for one after every batch, and hands it to the same worker when it goes on.
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

#: Where a state says of which worker it is, and where that one stands.
_WORKER = "worker"
#: Process that is guarded; a fork of it is another one.
_guarded: list[int] = []


class WorkerPart:
    """A worker's part of an iteration, and where it stands there. It is begun at once.

    Parameters
    ----------
    schedule : Schedule
        How the dataset is read.
    batch_size : int or None
        That of the dataset.
    worker : Worker
        Which of the workers this is.
    state : mapping, optional
        Where to go on, instead of a pass that begins.

    Attributes
    ----------
    yielded : int
        Samples delivered of the batch that comes next.
    noted : int
        See `OpenedDataset`; negative for batches before.

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
        """Yield what is to be read: a stretch, and the number of this worker's part of it."""
        while self._rest is not None:
            yield self._rest, self._part
            following = next(self._rests, None)
            if following is None:  # the state is that of the end
                return
            self._rest, self._part, self.yielded = following, self._worker.number, 0

    def advance(self, mark: Any) -> None:
        """Note that a whole batch was delivered; `mark` is the block's for it."""
        assert self._rest is not None
        self._rest, self._part = self._rest.after(self._part, mark)
        self.noted -= self.yielded
        self.yielded = 0

    def state_dict(self) -> dict[str, Any]:
        """Return the state of this worker."""
        if self._rest is None:  # nothing was there to read
            return self._schedule.state_dict(0, True) if self._state is None else {**self._state}
        rest = self._rest
        state = write_state(rest.options, rest.batching, rest.place, skipped=rest.skipped)
        place = {**self._here(), "part": self._part, "rows": self.yielded}
        return {**state, "mdstorm": {**state["mdstorm"], _WORKER: place}}

    def _here(self) -> dict[str, Any]:
        """What has to be the same where a state is taken and where it is loaded."""
        return {
            "number": self._worker.number,
            "num_workers": self._worker.count,
            "batch_size": self._batch_size,
            "world_size": self._schedule.options.in_world(self._worker.world).order.world_size,
        }


def is_of_worker(state: object) -> bool:
    """Whether a state is that of one worker process."""
    ours = state.get("mdstorm") if isinstance(state, Mapping) else None
    return isinstance(ours, Mapping) and isinstance(ours.get(_WORKER), Mapping)


def end_with_parent() -> None:
    """Let this process end as soon as the one that started it is gone, however that ends.

    PyTorch's own workers look for their parent every few seconds, when they have nothing else to
    do; and those that had not begun when it ended take its successor for it.

    Only processes of `multiprocessing` have such a parent; in others nothing happens.
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
