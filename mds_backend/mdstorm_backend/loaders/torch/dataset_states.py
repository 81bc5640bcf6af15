"""The epochs and the state of a `StreamingDataset`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch.utils.data import get_worker_info

from mdstorm_backend.errors import StateMismatchError
from mdstorm_backend.loaders.torch.opened_dataset import OpenedDataset
from mdstorm_backend.loaders.torch.worker_part import (
    WorkerPart,
    is_of_worker,
    refuse_state_of_worker,
)


class DatasetStates(OpenedDataset):
    """A dataset that says where reading stands, and goes on from there."""

    #: Samples of the iteration that was begun last, in the elastic order of its last epoch.
    _yielded = 0
    #: In a worker process of a plain ``DataLoader``: what it reads, and the state with which the
    #: next iteration goes on.
    _part: WorkerPart | None = None
    _part_state: Mapping[str, Any] | None = None

    @property
    def next_epoch(self) -> int:
        """Number of the epoch that is begun next."""
        return self.reading.next_epoch

    @next_epoch.setter
    def next_epoch(self, epoch: int) -> None:
        self.reading.next_epoch = epoch

    def set_epoch(self, epoch: int) -> None:
        """Say with which epoch the next iteration begins, over samples or by a loader.

        One that goes on where a state was taken does so still, if that is in this epoch. In the
        exact order the workers of a plain ``DataLoader`` begin with that of the dataset they were
        copied from.
        """
        self.reading.next_epoch = epoch

    def state_dict(
        self, num_samples: int | None = None, from_beginning: bool = True
    ) -> dict[str, Any]:
        """Return where reading stands, for `load_state_dict`.

        Without arguments that is where the iteration stands that was begun last, over samples in
        this process or by a `StreamingDataLoader`. With them, as in MosaicML Streaming, the caller
        says it.

        Parameters
        ----------
        num_samples : int, optional
            Samples that all ranks together have had of the epoch; in the exact order of the pass,
            which may be of several epochs.
        from_beginning : bool
            Whether that is counted from the beginning, or from where a loaded state began.

        Raises
        ------
        StateMismatchError
            If nobody knows: the samples are read by workers of a plain ``DataLoader``, or a
            transform may have dropped some. A worker knows of its own part, which is what
            torchdata's ``StatefulDataLoader`` asks for. In the exact order the process that started
            workers does not notice them: its state is that of what it has read itself.
        """
        if num_samples is not None:
            return self.reading.state_dict(num_samples, from_beginning)
        if get_worker_info() is not None:
            if self._part is None:
                raise StateMismatchError(
                    "this worker process has not begun to read, and knows of no other place: ask "
                    "for the state once the dataset is iterated there"
                )
            return self._part.state_dict()
        return self.reading.state_of_samples(self._yielded)

    def load_state_dict(self, obj: dict[str, Any]) -> None:
        """Let the next iteration go on where a state was taken, by this class or MosaicML's.

        After the last sample of an epoch that is the next one. The state's seed and canonical nodes
        go before the arguments'.

        Raises
        ------
        StateMismatchError
            If it was taken from another dataset or order, or is no state.
        """
        if get_worker_info() is not None and is_of_worker(obj):
            self._part_state = obj
            return
        refuse_state_of_worker(obj)
        self.reading.load_state_dict(obj)
        self._yielded = 0
        self.go_on_with(self.reading)
