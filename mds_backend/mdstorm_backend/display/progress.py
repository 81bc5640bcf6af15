"""How far a piece of work is, wherever it runs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

from mdstorm_backend.base.shard_threads import OnProgress
from mdstorm_backend.display.live_line import LiveLine, open_line

#: A function to call; False for silence, and None or True for what `progress` decides.
Progress: TypeAlias = OnProgress | bool | None

#: Seconds between two drawings.
_INTERVAL = 0.1


@contextmanager
def progress(what: str, unit: str, given: Progress = None) -> Iterator[OnProgress | None]:
    """Show how far the work in a block is: on a terminal, or in a notebook.

    Parameters
    ----------
    what : str
        What is being done: ``"Checking shards"``.
    unit : str
        What is counted, in the plural.
    given : callable or bool, optional
        What a caller of the package has asked for instead.

    Yields
    ------
    callable or None
        To be called with the number done and the number of all, from any thread; None if nothing
        is shown.
    """
    if callable(given):
        yield given
        return
    line = None if given is False else open_line()
    if line is None:
        yield None
        return
    shown = Drawn(line, what)
    last = (0, 0)

    def on_progress(done: int, total: int) -> None:
        nonlocal last
        last = (done, total)
        shown.draw(f"{done:,} of {total:,} {unit}", done, total)

    ended = "stopped after"
    try:
        yield on_progress
        ended = "done:"
    finally:
        shown.close(f"{ended} {last[0]:,} of {last[1]:,} {unit}" if last[1] else "")


class Drawn:
    """Draws a line no more often than anybody sees, from any thread, and never raises.

    Parameters
    ----------
    line : LiveLine
        The line.
    what : str
        What the line is about.
    """

    def __init__(self, line: LiveLine, what: str) -> None:
        self._line: LiveLine | None = line
        self._what = what
        self._begun = self._drawn = time.monotonic() - _INTERVAL
        self._lock = threading.Lock()

    def draw(self, text: str, done: int | None = None, total: int | None = None) -> None:
        """Show a text, unless another has just been drawn."""
        now = time.monotonic()
        if now - self._drawn < _INTERVAL or not self._lock.acquire(blocking=False):
            return
        try:
            if self._line is not None:
                self._drawn = now
                self._line.draw(f"{self._what}: {text}", done, total)
        except Exception:  # a terminal that is gone: the work goes on without it
            self._close("")
        finally:
            self._lock.release()

    def close(self, text: str = "") -> None:
        """End the line; may be repeated."""
        with self._lock:
            seconds = time.monotonic() - self._begun - _INTERVAL
            self._close(f"{self._what}: {text}, {seconds:,.1f} s" if text else "")

    def _close(self, text: str) -> None:
        line, self._line = self._line, None
        try:
            if line is not None:
                line.close(text)
        except Exception:
            return
