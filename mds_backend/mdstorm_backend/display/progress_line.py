"""`ProgressLine`: shows how far some work is, in a terminal or a notebook."""

from __future__ import annotations

import logging
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from importlib import import_module
from multiprocessing import parent_process
from typing import Any, TypeAlias

from mdstorm_backend.base.pools import OnProgress

_logger = logging.getLogger(__name__)

#: A function to call with the progress; False to show none; None or True for the default.
Progress: TypeAlias = OnProgress | bool | None
#: Minimum number of seconds between two updates of a progress line.
INTERVAL = 0.1
#: The environment variable that turns all progress off: ``off``, ``0``, ``false`` or ``no``.
VARIABLE = "MDSTORM_PROGRESS"
_OFF = frozenset({"off", "0", "false", "no"})
#: Held while a progress line is shown on the terminal, so that there is only one at a time.
_terminal = threading.Lock()


@contextmanager
def progress(what: str, unit: str, given: Progress = None) -> Iterator[OnProgress]:
    """Show the progress of the work in a ``with`` block, in a terminal or a notebook.

    Parameters
    ----------
    what : str
        Description of the work: ``"Checking shards"``.
    unit : str
        Name of the items, in the plural.
    given : callable or bool, optional
        The user's choice; see `Progress`.

    Yields
    ------
    callable
        A function to call from any thread with the number of finished items and the total.
    """
    if callable(given):
        yield given
        return
    with ProgressLine(what, shown=given is not False) as line:
        yield lambda done, total: line.draw(f"{done:,} of {total:,} {unit}", done, total)


class ProgressLine:
    """A line that shows the progress of some work until it is closed, as at the end of a ``with``.

    It is drawn at most ten times a second, by the threads that call `draw`, and never raises.
    Nothing is shown if the output is neither a terminal nor a notebook, if the terminal already
    shows a line, on ranks other than the first, in worker processes, or if `VARIABLE` turns it off.

    Parameters
    ----------
    what : str
        Description of the work, shown at the start of the line.
    shown : bool
        Whether to show anything.
    in_terminal : bool
        Whether a terminal may show the line.
    """

    def __init__(self, what: str, *, shown: bool = True, in_terminal: bool = True) -> None:
        self._what, self._text = what, ""
        self._begun = time.monotonic()
        self._drawn = self._begun - INTERVAL
        self._lock = threading.Lock()
        self._view: _TerminalView | _NotebookView | None = None
        try:
            if shown:
                self._view = _open_view(in_terminal=in_terminal)
        except Exception:  # an error of the display must not stop the work
            _logger.debug("progress cannot be shown", exc_info=True)

    @property
    def is_shown(self) -> bool:
        """Whether the line is shown."""
        return self._view is not None

    def draw(self, text: str, done: int = 0, total: int | None = None) -> None:
        """Show a line of text, unless the previous line was drawn too recently."""
        self._text = text
        now = time.monotonic()
        if now - self._drawn < INTERVAL or not self._lock.acquire(blocking=False):
            return
        try:
            if self._view is not None:
                self._drawn = now
                self._view.draw(self._line(), done, total)
        except Exception:  # the terminal may be closed: the work continues without it
            _logger.debug("progress is no longer shown", exc_info=True)
            self._end("")
        finally:
            self._lock.release()

    def close(self, ended: str = "") -> None:
        """End the line. A notebook keeps it, with `ended` before the latest text."""
        with self._lock:
            self._end(self._line(ended))

    def _end(self, text: str) -> None:
        view, self._view = self._view, None
        try:
            if view is not None:
                view.close(text)
        except Exception:
            _logger.debug("progress cannot be shown", exc_info=True)

    def _line(self, ended: str = "") -> str:
        seconds = f"{time.monotonic() - self._begun:,.0f} s"
        return f"{self._what}: {ended}{', '.join(filter(None, (self._text, seconds)))}"

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close("stopped after " if kind else "")


def _open_view(*, in_terminal: bool) -> _TerminalView | _NotebookView | None:
    """Return a place that shows a line; None if no line should be shown."""
    off = os.environ.get(VARIABLE, "").strip().lower() in _OFF
    if off or parent_process() is not None:
        return None
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if hasattr(ipython, "get_ipython") else None
    is_notebook = getattr(shell, "kernel", None) is not None
    if not is_notebook and not (in_terminal and sys.stderr is not None and sys.stderr.isatty()):
        return None
    from mdstorm_backend.order import find_world  # imported only where progress can be shown

    if find_world().rank != 0:
        return None
    if is_notebook:
        return _NotebookView()
    return _TerminalView() if _terminal.acquire(blocking=False) else None


class _TerminalView:
    """A bar on standard error, which rich draws in the caller's thread and removes at the end."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        class Lenient(Console):
            def on_broken_pipe(self) -> None:
                raise BrokenPipeError  # rich's own method exits the program

        self._bar = Progress(
            BarColumn(bar_width=12),
            TextColumn("{task.description}", markup=False),
            console=Lenient(stderr=True),
            transient=True,
            auto_refresh=False,
            redirect_stdout=False,  # otherwise, printed output would go to standard error
        )
        self._task = self._bar.add_task("", total=None)
        self._bar.start()

    def draw(self, text: str, done: int, total: int | None) -> None:
        self._bar.update(self._task, description=text, completed=done, total=total, refresh=True)

    def close(self, text: str) -> None:
        try:
            self._bar.stop()
        finally:
            _terminal.release()


class _NotebookView:
    """One output of a notebook cell, updated in place; rich would need ipywidgets for it."""

    def __init__(self) -> None:
        display: Any = import_module("IPython.display").display
        self._output: Any = display(self._shown(""), raw=True, display_id=True)

    def draw(self, text: str, done: int, total: int | None) -> None:
        bar = f'<progress value="{done}" max="{total}"></progress> ' if total else ""
        self._output.update(self._shown(text, bar), raw=True)

    def close(self, text: str) -> None:
        self._output.update(self._shown(text), raw=True)

    def _shown(self, text: str, bar: str = "") -> dict[str, str]:
        return {"text/plain": text, "text/html": f"<div>{bar}{escape(text)}</div>"}
