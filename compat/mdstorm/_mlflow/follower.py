"""`Follower`: keeps a run up to date about where the iterations over a loader begin.

From a state, a run lists passes that follow one another. When an iteration begins elsewhere,
because the last one was left early, a state was loaded or an epoch set, the follower appends the
position to the run, with the number of the step. It ends with the run, and does nothing in other
processes.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from weakref import ref

from mdstorm._mlflow.states import LoggedState, LoggedStates
from mdstorm.errors import InvalidArgumentError
from mdstorm_backend.loaders import (
    Loader,
    ReaderOptions,
    Trace,
    UsedBatches,
    read_state,
    write_state,
)
from mdstorm_backend.order import Position

_logger = logging.getLogger(__name__)


def batches_of(options: ReaderOptions) -> dict[str, Any]:
    """Return how a loader makes batches, as `LoggedState.batches`."""
    batches = {key: getattr(options, key) for key in ("batch_size", "drop_last", "num_workers")}
    return {**batches, "ranks_per_node": options.in_world().order.world.local_size}


@dataclass(frozen=True)
class Mark:
    """A step, its position, and what the loader had used and loaded there."""

    step: int
    position: Position
    used: tuple[int, int]
    loads: int


class Follower:
    """Follows a loader, on behalf of a run.

    It refers to no data, so that it may outlive the loader.

    Parameters
    ----------
    states : LoggedStates
        The states of the run, of which the last one is where the loader is.
    source : object
        The user's loader.
    loader : Loader
        The engine's loader.
    """

    def __init__(self, states: LoggedStates, source: object, loader: Loader) -> None:
        self._states, self._process = states, os.getpid()
        self._used: UsedBatches = loader.used
        self._source = ref(source)
        last = states.found[-1]
        position = read_state(last.state, loader.options.in_world())
        self._mark = self._marked(last.step, position, loader)
        #: The next step, if the run has ended or the loader cannot be followed any more.
        self._end: int | None = None
        self._is_over = False

    def _marked(self, step: int, position: Position, loader: Loader) -> Mark:
        return Mark(step, position, loader.used.mark, loader.epochs.loads)

    def is_last_of(self, states: LoggedStates) -> bool:
        """Whether this process logged the last one of a run's states."""
        return self._is_here and self._states.found == states.found

    def follows(self, source: object, loader: Loader) -> bool:
        """Whether this counts a loader, which has loaded no state since."""
        is_same = self._source() is source and self._used is loader.used
        return is_same and self._mark.loads == loader.epochs.loads

    @property
    def _is_here(self) -> bool:
        return self._process == os.getpid()

    @property
    def step(self) -> int | None:
        """The step that comes next, since each used batch was one; None if that is not known."""
        if self._is_over:
            return self._end
        batches = self._used.since(self._mark.used)
        return None if batches is None else self._mark.step + batches

    def __call__(self, loader: Loader) -> None:
        """Append where an iteration begins, unless the run knows it."""
        if self._is_over or not self._is_here:
            return
        try:
            self._follow(loader)
        except Exception as error:  # a store may raise anything
            self._stop(None)
            _logger.warning(
                "The run %s does not have where the loader %r began or continued after step %d, "
                "so the rows that load_trace lists for later steps may be wrong (%s). Call "
                "mdstorm.mlflow.log_state(loader, step=…) before the next iteration",
                self._states.run.id,
                self._states.name,
                self._mark.step,
                error,
            )

    def _stop(self, step: int | None) -> None:
        self._end, self._is_over = step, True

    def _follow(self, loader: Loader) -> None:
        if not self._states.run.is_running:
            self._stop(self.step)
            return
        here, position = loader.latest.here, loader.latest.position
        begin, before = Trace(here, position), self._mark
        state = LoggedState(
            before.step,
            write_state(here, position),
            batches_of(here),
            self._states.found[-1].data,
            follows=before.loads == loader.epochs.loads,
        )
        try:
            step = self._step_at(loader, here)
        except InvalidArgumentError as error:
            self._lose(state, f"{error}")
            return
        state = state._replace(step=step)
        known = Trace(here, before.position).batches_until(begin)
        if known != step - before.step or not state.reads_like(self._states.found[-1]):
            self._states.append(state)
        self._mark = self._marked(step, position, loader)

    def _step_at(self, loader: Loader, here: ReaderOptions) -> int:
        """Return the step with which the latest iteration of a loader begins.

        Raises
        ------
        InvalidArgumentError
            If it is not known.
        """
        loaded = loader.epochs.loaded
        if self._mark.loads != loader.epochs.loads and loaded is not None:
            return step_of_loaded(self._states, loaded, here, is_own=True)
        if (step := self.step) is None:
            raise InvalidArgumentError(
                "TensorFlow itself took batches of an iteration that it left early, so it is not "
                "known how many it used"
            )
        return step

    def _lose(self, state: LoggedState, reason: str) -> None:
        """Log that the rows of later steps are not known."""
        step = self.step
        state = state._replace(unknown=reason, follows=True)
        state = state if step is None else state._replace(step=step)
        self._states.append(state)
        self._stop(None)
        _logger.warning(
            "The run %s does not show which rows the loader %r has from step %d on, because %s: "
            "call mdstorm.mlflow.log_state(loader, step=…) before the next iteration",
            self._states.run.id,
            self._states.name,
            state.step,
            reason,
        )


def step_of_loaded(
    states: LoggedStates, loaded: Mapping[str, Any], options: ReaderOptions, *, is_own: bool
) -> int:
    """Return the step of a run that begins at a state that was loaded.

    Raises
    ------
    InvalidArgumentError
        If that is not known.
    """
    begin = Trace(options, read_state(loaded, options))
    return states.step_of(begin, loaded, options, was_saved=True, is_own=is_own)
