"""Draw a line as often as anybody sees."""

from __future__ import annotations

import threading
import time

from mdstorm_backend.display.live_line import LiveLine

#: Seconds between two drawings.
_INTERVAL = 0.1


class Drawn:
    """Draws a line no more often than anybody sees, from any thread, and never raises.

    Parameters
    ----------
    line : LiveLine
        The line.
    what : str
        What the line is about.
    interval : float, optional
        Seconds between two drawings, each of which takes about a millisecond.
    """

    def __init__(self, line: LiveLine, what: str, interval: float | None = None) -> None:
        self._line: LiveLine | None = line
        self._what = what
        self._interval = _INTERVAL if interval is None else interval
        self._begun = time.monotonic()
        self._drawn = self._begun - self._interval
        self._lock = threading.Lock()

    def draw(self, text: str, done: int | None = None, total: int | None = None) -> None:
        """Show a text, unless another has just been drawn."""
        now = time.monotonic()
        if now - self._drawn < self._interval or not self._lock.acquire(blocking=False):
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
            seconds = time.monotonic() - self._begun
            self._close(f"{self._what}: {text}, {seconds:,.1f} s" if text else "")

    def _close(self, text: str) -> None:
        line, self._line = self._line, None
        try:
            if line is not None:
                line.close(text)
        except Exception:
            return
