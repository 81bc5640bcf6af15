"""What one worker process of a plain ``DataLoader`` reads of a dataset, and its state.

PyTorch's own loader has no state. That of torchdata, ``StatefulDataLoader``, asks each worker for
one after every batch, and hands it to the same worker when it goes on.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from mdstorm_backend.errors import StateMismatchError
from mdstorm_backend.loaders.reading import Leg, Reading, Worker
from mdstorm_backend.loaders.state_values import check_equal, damaged, number

#: Where a state says of which worker it is, and where that one stands.
_WORKER = "worker"


class WorkerPart:
    """A worker's part of an iteration, and where it stands there. It is begun at once.

    Parameters
    ----------
    reading : Reading
        How the dataset is read.
    batch_size : int or None
        That of the dataset.
    worker : Worker
        Which of the workers this is.
    state : mapping, optional
        Where to go on, instead of a pass that begins.

    Attributes
    ----------
    rows : int
        Samples delivered of the batch that comes next.

    Raises
    ------
    StateMismatchError
        If the state is of another worker, dataset, order or world.
    """

    def __init__(
        self,
        reading: Reading,
        batch_size: int | None,
        worker: Worker,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        self._reading = reading
        self._worker = worker
        self._batch_size = batch_size
        self._part = worker.number
        self._state = state
        self.rows = 0
        if state is None:
            self._legs = reading.own_legs(batch_size, worker)
            self._leg = next(self._legs, None)
            return
        here = self._here()
        there = state["mdstorm"][_WORKER]
        if missing := [key for key in here if key not in there]:
            raise damaged(f"it has no {missing} of its worker")
        check_equal(there, here, reading.options.dataset.url)
        self._part, self.rows = number(there, "part"), number(there, "rows")
        self._legs = reading.legs_of_state(state, batch_size, worker)
        self._leg = next(self._legs, None)

    def legs(self) -> Iterator[tuple[Leg, int]]:
        """Yield what is to be read: a stretch, and the number of this worker's part of it."""
        while self._leg is not None:
            yield self._leg, self._part
            following = next(self._legs, None)
            if following is None:  # the state is that of the end
                return
            self._leg, self._part, self.rows = following, self._worker.number, 0

    def advance(self, mark: Any) -> None:
        """Note that a whole batch was delivered; `mark` is the block's for it."""
        assert self._leg is not None
        self._leg, self._part = self._leg.rest(self._part, mark)
        self.rows = 0

    def state_dict(self) -> dict[str, Any]:
        """Return the state of this worker."""
        if self._leg is None:  # nothing was there to read
            return self._reading.state_dict(0, True) if self._state is None else {**self._state}
        state = self._reading.state_of_leg(self._leg)
        place = {**self._here(), "part": self._part, "rows": self.rows}
        return {**state, "mdstorm": {**state["mdstorm"], _WORKER: place}}

    def _here(self) -> dict[str, Any]:
        """What has to be the same where a state is taken and where it is loaded."""
        return {
            "number": self._worker.number,
            "num_workers": self._worker.count,
            "batch_size": self._batch_size,
            "world_size": self._reading.options.here(self._worker.world).order.world_size,
        }


def is_of_worker(state: object) -> bool:
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
    if is_of_worker(state):
        raise StateMismatchError(
            "the state is that of one worker process, which read a part of the samples: load the "
            "state of the whole loader, StatefulDataLoader.load_state_dict, with as many workers"
        )
