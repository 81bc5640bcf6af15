"""The recorders of a loader's passes, and their sum."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mdstorm_backend.base.recorder import Recorder
from mdstorm_backend.loaders.statistics import Statistics


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
        self._over = Statistics()
        self._running: list[Recorder] = []
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
        over = [running for running in self._running if running.is_over]
        self._running = [running for running in self._running if not running.is_over]
        for ended in over:
            self._over += _statistics(ended)
        self._described = {"order": order, "workers": workers}
        self.last = recorder or Recorder(self._clock, self._asked)
        self._asked = None
        self._running.append(self.last)
        return self.last

    def statistics(self, *, last_pass: bool = False) -> Statistics:
        """Return the sum of all passes, or the last one alone."""
        chosen = self._running if not last_pass else [] if self.last is None else [self.last]
        total = Statistics() if last_pass else self._over
        for recorder in chosen:
            total += _statistics(recorder)
        if self.last is None:
            return total
        return replace(total, consumer=self.last.consumer, **self._described)


def _statistics(recorder: Recorder) -> Statistics:
    return Statistics(**recorder.totals())  # type: ignore[arg-type]
