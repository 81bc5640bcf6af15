"""Where the reading of a `StreamingDataset` stands, in its process and in workers.

Workers of PyTorch's own loader have no state. That of torchdata, ``StatefulDataLoader``, asks each
worker for one after every batch, and hands it to the same worker when it goes on.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Iterator, Mapping
from math import lcm
from multiprocessing import context, parent_process
from multiprocessing.connection import wait
from typing import Any

from torch.utils.data import get_worker_info

from mdstorm_backend.errors import StateMismatchError
from mdstorm_backend.loaders.passes import SAMPLES_AT_A_TIME, Schedule, Worker
from mdstorm_backend.loaders.rest import Batching, Rest
from mdstorm_backend.loaders.state import check_equal, damaged, number
from mdstorm_backend.loaders.torch.opened_dataset import OpenedDataset
from mdstorm_backend.order.world import World, find_world

#: Where a state says of which worker it is, and where that one stands.
_WORKER = "worker"
#: Process that is guarded; a fork of it is another one.
_guarded: list[int] = []


class DatasetStates(OpenedDataset):
    """A dataset that says where reading stands, and goes on from there."""

    #: Samples of the iteration that was begun last, in the elastic order of its last epoch.
    yielded = 0
    #: How many of them `note_items` knows.
    noted = 0
    #: In a worker process of a plain ``DataLoader``: what it reads, and the state with which the
    #: next iteration goes on.
    _part: WorkerPart | None = None
    _part_state: Mapping[str, Any] | None = None
    #: The process that has sent this copy to one that it was starting, and its world.
    _sent: tuple[int, World] | None = None

    def state_dict(
        self, num_samples: int | None = None, from_beginning: bool = True
    ) -> dict[str, Any]:
        """Return where reading stands: see `StreamingDataset.state_dict`."""
        if num_samples is not None:
            self.check_batches(num_samples)
            return self.schedule.state_dict(num_samples, from_beginning)
        if get_worker_info() is not None:
            if self._part is None:
                raise StateMismatchError(
                    "this worker process has not begun to read, and knows no other position: "
                    "request the state after iterating over the dataset there"
                )
            return self._part.state_dict()
        return self.schedule.state_of_samples(self.yielded)

    def note_items(self, count: int) -> None:
        """Note whether `count` items, made by an overridden ``__iter__``, are one sample each."""
        here = self._part or self
        if here.yielded - here.noted != count:
            self.schedule.epochs.note_packs()
        here.noted = here.yielded

    def check_batches(
        self, num_samples: int, batch_size: int | None = None, num_workers: int = 0
    ) -> None:
        """Refuse a number of samples that are no batches of the worker processes that read them.

        Those of a loader with another `batch_size` have whole ones after the same number of each.
        """
        size, schedule = self.settings.batch_size or SAMPLES_AT_A_TIME, self.schedule
        num_workers = max(num_workers, schedule.epochs.num_joined)
        if num_workers < 2:
            return
        whole = size
        if batch_size not in (None, size):
            whole = lcm(size, batch_size) * num_workers
        sampler = schedule.sampler()
        samples = num_samples // sampler.num_ranks
        if samples % whole and samples < sampler.rows_per_epoch:
            raise StateMismatchError(
                f"after {samples} samples on this rank, worker processes stand within batches of "
                f"{size}, by which they divide the samples. Which ones they have delivered is not "
                "known: give the dataset the batch_size of the DataLoader"
            )

    def load_state_dict(self, obj: dict[str, Any]) -> None:
        """Let the next iteration go on: see `StreamingDataset.load_state_dict`."""
        if get_worker_info() is not None and _is_of_worker(obj):
            self._part_state = obj
            return
        refuse_state_of_worker(obj)
        self.schedule.load_state_dict(obj, Batching(self.settings.batch_size or 1))
        self.yielded = 0

    def begin_part(self, info: Any) -> WorkerPart:
        """Begin an iteration in a worker process of a plain ``DataLoader``.

        Parameters
        ----------
        info : object
            What `torch.utils.data.get_worker_info` says.
        """
        end_with_parent()
        group, world = info.seed - info.id, self._world_of_parent()
        worker = Worker(info.id, info.num_workers, group=group, world=world)
        state, self._part_state = self._part_state, None
        self._part = WorkerPart(self.schedule, self.settings.batch_size, worker, state)
        return self._part

    def __getstate__(self) -> dict[str, Any]:
        """Tell the world to a process that is being started, which may be a worker."""
        sent = context.get_spawning_popen() is not None and self.order.follows_world
        place = (os.getpid(), find_world()) if sent else None
        return {**self.__dict__, "_sent": place, "_part": None}

    def _world_of_parent(self) -> World | None:
        """Return what the process said whose worker this is; a fork knows it by itself."""
        parent = parent_process()
        if self._sent is None or parent is None or parent.pid != self._sent[0]:
            return None
        return self._sent[1]


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
        See `DatasetStates`; negative for batches before.

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
        state = self._schedule.state_of_rest(self._rest)
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


def _is_of_worker(state: object) -> bool:
    """Whether a state is that of one worker process."""
    ours = state.get("mdstorm") if isinstance(state, Mapping) else None
    return isinstance(ours, Mapping) and isinstance(ours.get(_WORKER), Mapping)


def refuse_state_of_worker(state: object) -> None:
    """Refuse a state of one worker where there are none.

    Raises
    ------
    StateMismatchError
        If it is one.
    """
    if _is_of_worker(state):
        raise StateMismatchError(
            "the state is that of one worker process, which read a part of the samples: load the "
            "state of the whole loader, StatefulDataLoader.load_state_dict, with the same number "
            "of workers"
        )


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
