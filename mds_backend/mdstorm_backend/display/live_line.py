"""A line that is drawn over and over: on a terminal, or in the output of a notebook's cell."""

from __future__ import annotations

import os
import sys
import threading
import time
from html import escape
from importlib import import_module
from multiprocessing import parent_process
from typing import Any, Protocol

#: Turns progress off, for all of this package: ``off``, ``0``, ``false`` or ``no``.
VARIABLE = "MDSTORM_PROGRESS"
_OFF = frozenset({"off", "0", "false", "no"})

#: Held by the line on the terminal: there is one at a time.
_terminal = threading.Lock()


class LiveLine(Protocol):
    """A line that is being shown."""

    @property
    def stays(self) -> bool:
        """Whether it has a place of its own, which nothing else writes to."""

    def draw(self, text: str, done: int | None = None, total: int | None = None) -> None:
        """Show a text, and a bar if the share that is done is known."""

    def close(self, text: str = "") -> None:
        """End it. A notebook keeps the text, if there is one; a terminal is cleaned."""


def open_line(*, in_terminal: bool = True) -> LiveLine | None:
    """Return a new line, or None where nobody looks, or somebody else shows one.

    It is None in logs, which are neither terminals nor notebooks; on all ranks but the first, in
    worker processes, and where `VARIABLE` says so.

    Parameters
    ----------
    in_terminal : bool
        Whether a terminal may show it.
    """
    if os.environ.get(VARIABLE, "").strip().lower() in _OFF:
        return None
    is_notebook = _is_notebook()
    if not (is_notebook or (in_terminal and _is_terminal())) or not _is_first():
        return None
    try:
        if is_notebook:
            return _NotebookLine()
        if not _terminal.acquire(blocking=False):
            return None
        try:
            return _TerminalLine()
        except BaseException:
            _terminal.release()
            raise
    except Exception:  # progress must not fail what it shows
        return None


def _is_notebook() -> bool:
    """Whether this process is a kernel of IPython, which a notebook is in front of."""
    ipython: Any = sys.modules.get("IPython")
    try:
        return getattr(ipython.get_ipython(), "kernel", None) is not None
    except AttributeError:  # not imported, or being imported
        return False


def _is_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # there is none, or it is closed
        return False


def _is_first() -> bool:
    """Whether this process shows progress for all ranks, and for its workers."""
    if parent_process() is not None:
        return False
    from mdstorm_backend.order import find_world  # for whoever shows progress alone

    try:
        return find_world().rank == 0
    except Exception:  # variables that do not make sense: whoever needs the world will say so
        return False


class _TerminalLine:
    """Drawn by rich on standard error, by whoever calls: there is no thread."""

    stays = False

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        class Lenient(Console):
            def on_broken_pipe(self) -> None:
                raise BrokenPipeError  # rich would end the program

        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=12),
            TextColumn("{task.fields[text]}", markup=False),
            TimeElapsedColumn(),
            console=Lenient(stderr=True),
            transient=True,
            auto_refresh=False,
            redirect_stdout=False,  # it would go to standard error
        )
        self._bar.start()
        self._task = self._bar.add_task("", total=None, text="")

    def draw(self, text: str, done: int | None = None, total: int | None = None) -> None:
        what, _, rest = text.partition(": ")
        self._bar.update(self._task, description=what, text=rest, completed=done or 0, total=total)
        self._bar.refresh()

    def close(self, text: str = "") -> None:
        try:
            self._bar.stop()
        finally:
            _terminal.release()


class _NotebookLine:
    """One output of a cell, replaced in place."""

    stays = True

    def __init__(self) -> None:
        display: Any = import_module("IPython.display").display
        self._since = time.monotonic()
        self._handle: Any = display(_Shown(""), display_id=True)

    def draw(self, text: str, done: int | None = None, total: int | None = None) -> None:
        seconds = time.monotonic() - self._since
        self._handle.update(_Shown(f"{text}, {seconds:.0f} s", done, total))

    def close(self, text: str = "") -> None:
        self._handle.update(_Shown(text))


class _Shown:
    """What a notebook is given to show."""

    def __init__(self, text: str, done: int | None = None, total: int | None = None) -> None:
        self._text, self._done, self._total = text, done, total

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        bar = f'<progress value="{self._done}" max="{self._total}"></progress> '
        return f"<div>{bar if self._total else ''}{escape(self._text)}</div>"
