"""How far a piece of work is, wherever it runs, and how many files a writer has written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

from mdstorm_backend.base.shard_threads import OnProgress
from mdstorm_backend.display.drawn import Drawn
from mdstorm_backend.display.live_line import open_line
from mdstorm_backend.display.quantities import counted, human_bytes

#: A function to call; False for silence, and None or True for what `progress` decides.
Progress: TypeAlias = OnProgress | bool | None


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

    ended = "stopped after "
    try:
        yield on_progress
        ended = ""
    finally:
        shown.close(f"{ended}{last[0]:,} of {last[1]:,} {unit}" if last[1] else "")


class FileProgress:
    """Shows files and bytes, if it is `shown` and somebody looks."""

    def __init__(self, *, shown: bool) -> None:
        self._files = self._bytes = 0
        line = open_line() if shown else None
        self._drawn = None if line is None else Drawn(line, "Writing MDS shards")

    def add(self, size: int) -> None:
        """Count a file of `size` bytes."""
        self._files += 1
        self._bytes += size
        if self._drawn is not None:
            self._drawn.draw(self._text)

    @property
    def _text(self) -> str:
        return f"{counted(self._files, 'file')}, {human_bytes(self._bytes)}"

    def close(self) -> None:
        """End the line."""
        if self._drawn is not None:
            self._drawn.close(self._text)
