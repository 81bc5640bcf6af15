"""Where the reading of a `StreamingDataset` stands, in its process and in workers."""

from __future__ import annotations

import os
from collections.abc import Mapping
from multiprocessing import context, parent_process
from typing import Any

from torch.utils.data import get_worker_info

from mdstorm_backend.errors import StateMismatchError
from mdstorm_backend.loaders.reading import Worker
from mdstorm_backend.loaders.torch.opened_dataset import OpenedDataset
from mdstorm_backend.loaders.torch.second_split import refuse_second_split
from mdstorm_backend.loaders.torch.worker_guard import end_with_parent
from mdstorm_backend.loaders.torch.worker_part import (
    WorkerPart,
    is_of_worker,
    refuse_state_of_worker,
)
from mdstorm_backend.order.world import World, find_world


class DatasetStates(OpenedDataset):
    """A dataset that says where reading stands, and goes on from there."""

    #: Samples of the iteration that was begun last, in the elastic order of its last epoch.
    yielded = 0
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
            return self.reading.state_dict(num_samples, from_beginning)
        if get_worker_info() is not None:
            if self._part is None:
                raise StateMismatchError(
                    "this worker process has not begun to read, and knows of no other place: ask "
                    "for the state once the dataset is iterated there"
                )
            return self._part.state_dict()
        return self.reading.state_of_samples(self.yielded)

    def load_state_dict(self, obj: dict[str, Any]) -> None:
        """Let the next iteration go on: see `StreamingDataset.load_state_dict`."""
        if get_worker_info() is not None and is_of_worker(obj):
            self._part_state = obj
            return
        refuse_state_of_worker(obj)
        self.reading.load_state_dict(obj)
        self.yielded = 0
        self.go_on_with(self.reading)

    def begin_part(self, info: Any, batch_size: int | None = None) -> WorkerPart:
        """Begin an iteration in a worker process of a plain ``DataLoader``.

        Parameters
        ----------
        info : object
            What `torch.utils.data.get_worker_info` says.
        batch_size : int, optional
            Rows of a batch; by default those that the dataset was told.
        """
        self.refuse_second_split()
        end_with_parent()
        group, world = info.seed - info.id, self._world_of_parent()
        worker = Worker(info.id, info.num_workers, group=group, world=world)
        state, self._part_state = self._part_state, None
        rows = batch_size or self.settings.batch_size
        self._part = WorkerPart(self.reading, rows, worker, state)
        return self._part

    def refuse_second_split(self) -> None:
        """Refuse to read a share for a loader that splits what it reads, see `second_split`."""
        refuse_second_split(self, self.count_ranks)

    def __getstate__(self) -> dict[str, Any]:
        """Tell the world to a process that is being started, which may be a worker."""
        sent = context.get_spawning_popen() is not None and self.order.follows_world
        if sent:
            self.refuse_second_split()
        place = (os.getpid(), find_world()) if sent else None
        return {**self.__dict__, "_sent": place, "_part": None}

    def _world_of_parent(self) -> World | None:
        """Return what the process said whose worker this is; a fork knows it by itself."""
        parent = parent_process()
        if self._sent is None or parent is None or parent.pid != self._sent[0]:
            return None
        return self._sent[1]
