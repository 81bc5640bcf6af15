"""The recorders of a loader's passes, and their sum."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mdstorm_backend.base.recorder import Recorder
from mdstorm_backend.loaders.loader_statistics import Statistics


class PassRecorders:
    """Records the passes of one loader. Copies, also pickled ones, begin at nothing.

    Parameters
    ----------
    clock : callable
        Returns seconds.

    Attributes
    ----------
    last : Recorder or None
        That of the pass that was begun last.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        #: The sum of the passes that are over, and the others: replaced at once, since other
        #: threads may ask meanwhile.
        self._passes: tuple[Statistics, list[Recorder]] = (Statistics(), [])
        self._described: dict[str, Any] = {}
        #: When the first batch of a pass was asked for that has not begun.
        self._asked: float | None = None
        self.last: Recorder | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        return PassRecorders, ()

    def note_asked(self) -> None:
        """Note that the first batch of the next pass is asked for, before that begins."""
        self._asked = self._clock()

    def begin(
        self, order: str = "exact", workers: int = 0, *, recorder: Recorder | None = None
    ) -> Recorder:
        """Return the recorder of a pass that begins, which may be a given one."""
        begun = recorder or Recorder(self._clock, self._asked)
        over, running = self._passes
        going_on = [begun]
        for other in running:
            if other.is_over:
                over += _statistics(other)
            else:
                going_on.append(other)
        self._passes = over, going_on
        self._described = {"order": order, "workers": workers}
        self.last, self._asked = begun, None
        return begun

    def statistics(self, *, last_pass: bool = False) -> Statistics:
        """Return the sum of all passes, or the last one alone."""
        total, chosen = self._passes
        last = self.last
        if last is None:
            return Statistics()
        if last_pass:
            total, chosen = Statistics(), [last]
        for recorder in chosen:
            total += _statistics(recorder)
        return replace(total, consumer=last.consumer, **self._described)


def _statistics(recorder: Recorder) -> Statistics:
    return Statistics(**recorder.totals())  # type: ignore[arg-type]
