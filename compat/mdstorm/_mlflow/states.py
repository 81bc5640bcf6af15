"""`LoggedStates`: where a loader of a run began or continued, and which step a state belongs to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from mdstorm._datasets import LoggedData, StoredPlace
from mdstorm._mlflow.run import Run
from mdstorm.errors import InvalidArgumentError, StateMismatchError
from mdstorm_backend.loaders import ReaderOptions, Trace, trace_of_state
from mdstorm_backend.order import StreamShape

#: What must be equal in all states of a loader, besides the data.
_OF_LOADER = ("order", "settings", "filters", "predicate", "transform")


class LoggedState(NamedTuple):
    """A state of a loader in a run.

    Attributes
    ----------
    step : int
        The step that begins here.
    state : mapping
        The state.
    batches : mapping
        How the loader makes batches.
    data : LoggedData
        Which data it reads.
    follows : bool
        Whether the steps of the state before it end here, because the same process went on here.
    unknown : str
        Why the rows of the steps from here on are not known; empty if they are.
    """

    step: int
    state: Mapping[str, Any]
    batches: Mapping[str, Any]
    data: LoggedData
    follows: bool = False
    unknown: str = ""

    @classmethod
    def from_json(cls, values: Mapping[str, Any], data: Sequence[LoggedData] = ()) -> LoggedState:
        """Return a state that was logged, with its own data or those with its number in `data`."""
        if "data" not in values:
            # The first version logged one state, with the place of the data.
            rows = values["state"]["mdstorm"].get("rows")
            place = StoredPlace(**values["source"])
            return cls(0, values["state"], values["batches"], LoggedData(place, rows=rows))
        found = values["data"]
        logged = data[found] if isinstance(found, int) else LoggedData.from_json(found)
        return cls(**{**values, "data": logged})

    def trace(self, data: Any, streams: Sequence[StreamShape]) -> Trace:
        """Return which rows the batches from here on have."""
        return trace_of_state(self.state, data, streams=streams, **self.batches)

    @property
    def settings(self) -> dict[str, Any]:
        """What all states of a loader have in common, besides the data."""
        return {key: self.state["mdstorm"].get(key) for key in _OF_LOADER}

    def reads_like(self, other: LoggedState) -> bool:
        """Whether batches that follow one another here would also do so in another state."""
        mine, its = ({**one.state["mdstorm"], **one.batches} for one in (self, other))
        keys = (*_OF_LOADER, *self.batches, "world_size")
        seeds = {one.state["shuffle_seed"] for one in (self, other)}
        return len(seeds) == 1 and all(mine.get(key) == its.get(key) for key in keys)


class LoggedStates:
    """The states of a loader in a run, in the order in which they were logged.

    Each is a file, and the data are logged once.

    Attributes
    ----------
    run : Run
        The run.
    name : str
        The loader's name in it.
    found : list of LoggedState
        The states.
    """

    def __init__(self, run: Run, name: str) -> None:
        self.run, self.name = run, name
        earlier = run.earlier_states(name)
        states, data = run.states(name)
        self._data = [LoggedData.from_json(one) for one in data]
        self._num_earlier = len(earlier)
        self.found = [LoggedState.from_json(one, self._data) for one in (*earlier, *states)]

    def append(self, state: LoggedState) -> None:
        """Log another state, which replaces the last one if that is of the same step."""
        states = list(self.found)
        is_again = len(states) > self._num_earlier and states[-1].step == state.step
        if is_again and not state.unknown:
            replaced = states.pop()
            state = state._replace(follows=state.follows or replaced.follows)
        data = LoggedData.from_json(_as_json(state.data.to_json()))
        if data not in self._data:
            self.run.log_data(self.name, len(self._data), data.to_json())
            self._data.append(data)
        values = _as_json({**state._asdict(), "data": self._data.index(data)})
        self.run.log_state(self.name, len(states) - self._num_earlier, values)
        self.found = [*states, LoggedState.from_json(values, self._data)]

    def step_of(
        self,
        begin: Trace,
        state: Mapping[str, Any],
        options: ReaderOptions,
        *,
        was_saved: bool,
        is_own: bool,
    ) -> int:
        """Return the step of the run that begins at a state.

        Parameters
        ----------
        begin : Trace
            The batches from the state on.
        state : mapping
            The state.
        options : ReaderOptions
            What the loader reads, and how.
        was_saved : bool
            Whether a loader of the run saved the state, so that it was in the state's world.
        is_own : bool
            Whether this process logged the last of the states: then the latest step is meant.

        Raises
        ------
        InvalidArgumentError
            If no step begins there, or several do, or the states are of another loader.
        """
        steps = self._steps_of(begin, state, options, was_saved=was_saved)
        if len(set(steps)) == 1 or (steps and is_own):
            return steps[0]
        if steps:
            raise InvalidArgumentError(
                f"each of the steps {sorted(set(steps))} of the loader {self.name!r} begins where "
                "its state does, in processes that resumed the run, so it is not known which step "
                "comes next: pass step="
            )
        raise InvalidArgumentError(
            f"the state of the loader {self.name!r} is not where a step of the run ends, so it is "
            "not known which step comes next: pass step="
        )

    def _steps_of(
        self, begin: Trace, state: Mapping[str, Any], options: ReaderOptions, *, was_saved: bool
    ) -> list[int]:
        """Return the steps that begin at a state, those of the last state first."""
        streams = getattr(options.order, "streams", ())
        ours = (state.get("mdstorm") or {}) if was_saved else {}
        steps: list[int] = []
        following = [*self.found[1:], None]
        for before, after in reversed([*zip(self.found, following, strict=True)]):
            end = after.step if after is not None and after.follows else None
            if before.unknown or not _has_same_batches(before, ours):
                continue
            try:
                trace = before.trace(options.dataset, streams)
                batches = trace.batches_until(begin, ours.get("lanes", ()))
            except StateMismatchError as error:
                raise of_another_loader(self.name, f"{error}") from error
            is_same = before.state["shuffle_seed"] == state.get("shuffle_seed")
            if batches is not None and is_same and (end is None or before.step + batches <= end):
                steps.append(before.step + batches)
        return steps


def _as_json(values: Mapping[str, Any]) -> Any:
    """Return values as they are read from a file."""
    return json.loads(json.dumps(values))


def _has_same_batches(before: LoggedState, ours: Mapping[str, Any]) -> bool:
    """Whether a saved state has the world and the batch size with which a logged one continued."""
    there = {"world_size": before.state["mdstorm"].get("world_size"), **before.batches}
    return all(ours.get(key, there[key]) == there[key] for key in ("world_size", "batch_size"))


def of_another_loader(name: str, reason: str) -> InvalidArgumentError:
    """Return the error for a state that is not of the loader with this name."""
    return InvalidArgumentError(
        f"the run has states of another loader under the name {name!r} ({reason}): pass another "
        "name=, for example the loader's context"
    )
