"""Show what the first pass of a loader downloads."""

from __future__ import annotations

import os
import threading
import time

from mdstorm_backend.display import Drawn, counted, human_bytes, open_line

#: Seconds between two drawings: the threads that draw have better things to do.
_INTERVAL = 0.5


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
