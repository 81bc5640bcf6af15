"""The recorders of a loader's passes, their sum, and what is shown of downloads meanwhile."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from mdstorm_backend.base.recorder import Recorder
from mdstorm_backend.display import Drawn, counted, human_bytes, open_line
from mdstorm_backend.loaders.loader_statistics import Statistics

#: Seconds between two drawings: the threads that draw have better things to do.
_INTERVAL = 0.5


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
        self,
        order: str = "exact",
        workers: int = 0,
        *,
        recorder: Recorder | None = None,
        shards: int | None = None,
    ) -> Recorder:
        """Return the recorder of a pass that begins, which may be a given one.

        `shards` is the number that the pass may download at most, if that is known.
        """
        begun = recorder or Recorder(self._clock, self._asked)
        if self.last is None:  # later passes find in the cache what the first one downloads
            begun.watcher = DownloadLine(shards)
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


class DownloadLine:
    """Shows the files and bytes that a pass has brought to this machine.

    It is drawn by the threads that download, after a file, so that there is no thread for it. The
    first batch may wait until it is opened, a fraction of a second; no other batch waits. A pass
    that downloads nothing shows nothing. On a terminal it ends with the first batch: from there on
    the terminal belongs to the training loop. A fork leaves it to its parent, whose threads may
    hold its lock.

    Parameters
    ----------
    most : int, optional
        Files that the pass may need at most, if that is known.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._files = self._bytes = 0
        self._since = time.monotonic()
        self._drawn: Drawn | None = None
        #: Whether it ends with the first batch, once it is there.
        self._ends_early = False
        self._has_started = self._is_over = False

    def downloaded(self, size: int) -> None:
        """Note a file of `size` bytes, in the thread that has downloaded it."""
        with self._lock:
            self._files += 1
            self._bytes += size
            if self._files == 1 and not self._is_over:
                line = open_line(in_terminal=not self._has_started)
                self._ends_early = line is None or not line.stays
                self._drawn = None if line is None else Drawn(line, "Downloading shards", _INTERVAL)
            drawn, files = self._drawn, self._files
        if drawn is not None:
            drawn.draw(self._text, *((files, self._most) if self._most else ()))

    @property
    def _text(self) -> str:
        rate = self._bytes / max(time.monotonic() - self._since, 1e-3)
        files = counted(self._files, "file")
        most = f" of at most {self._most:,}" if self._most else ""
        return f"{files}{most}, {human_bytes(self._bytes)}, {human_bytes(rate)}/s"

    def started(self) -> None:
        """Note that the first batch is there."""
        if os.getpid() != self._process:
            return
        with self._lock:
            self._has_started = True
            if self._ends_early:
                self._end()

    def ended(self) -> None:
        """Note that the pass is over."""
        if os.getpid() != self._process:
            return
        with self._lock:
            self._end()

    def _end(self) -> None:
        self._is_over = True
        drawn, self._drawn = self._drawn, None
        if drawn is not None:
            drawn.close(self._text)
