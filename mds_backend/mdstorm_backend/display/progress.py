"""How far a piece of work is, wherever it runs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeAlias

from mdstorm_backend.base.shard_threads import OnProgress
from mdstorm_backend.display.drawn import Drawn
from mdstorm_backend.display.live_line import open_line

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
