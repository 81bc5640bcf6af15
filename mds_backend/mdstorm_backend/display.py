"""Human-readable output: sizes, object descriptions and progress.

Progress is shown in a terminal or in the output of a notebook cell.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from importlib import import_module
from inspect import Parameter, signature
from multiprocessing import parent_process
from reprlib import repr as shortened
from typing import Any, TypeAlias

from mdstorm_backend.base.threads import OnProgress
from mdstorm_backend.storage.urls import redact

__all__ = [
    "Described",
    "Description",
    "FileProgress",
    "Progress",
    "ThrottledLine",
    "counted",
    "human_bytes",
    "open_line",
    "progress",
    "shown_url",
]

#: Maximum number of table rows in a notebook; a line below them gives the number of hidden rows.
_MOST_ROWS = 200
_CELL = ' style="text-align:left"'


@dataclass(frozen=True)
class Description:
    """The description of an object, for its repr and for notebooks.

    Attributes
    ----------
    line : sequence of str
        The parts between the parentheses of the repr, in order.
    facts : sequence of (str, str)
        Names and values of the first table in a notebook, in order.
    headings : sequence of str
        Headings of the second table.
    rows : sequence of sequence of str
        Rows of the second table.
    """

    line: Sequence[str]
    facts: Sequence[tuple[str, str]] = ()
    headings: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = ()


class Described:
    """Base class for objects whose repr and notebook output are descriptions and never raise.

    A subclass overrides `_mdstorm_description`, unless its constructor arguments describe it.
    """

    def _mdstorm_description(self, *, full: bool) -> Description:
        """Return the description: by default the constructor arguments that are also attributes.

        Parameters
        ----------
        full : bool
            Whether the description is for a notebook, which also shows the tables. In that case,
            an index on a local disk may be read; nothing is downloaded, and no data is read.
        """
        return Description(list(_arguments(self)))

    def __repr__(self) -> str:
        found = _description(self, full=False)
        return f"{type(self).__name__}({', '.join(found.line)})"

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: plain tables in the colours of its theme."""
        found = _description(self, full=True)
        title = f"<p><b>{escape(type(self).__name__)}</b></p>"
        facts = "".join(_row([name, value], head=1) for name, value in found.facts)
        parts = [title, _table(facts or _row(list(found.line)))]
        if found.headings:
            rows = "".join(_row(row) for row in found.rows[:_MOST_ROWS])
            head = f"<thead>{_row(found.headings, head=len(found.headings))}</thead>"
            parts.append(_table(rows, head))
            if len(found.rows) > _MOST_ROWS:
                parts.append(f"<p>… and {len(found.rows) - _MOST_ROWS:,} more</p>")
        return "".join(parts)


def _description(value: Described, *, full: bool) -> Description:
    """Return the description of an object in any state, even if closed or partly constructed."""
    for in_full in (full, False):
        try:
            return value._mdstorm_description(full=in_full)
        except Exception:  # debuggers and logs may show objects whose constructor has failed
            continue
    return Description(["cannot be described now"])


def _arguments(value: Described) -> Iterator[str]:
    """Yield the non-default constructor arguments, with "…" for those that are not attributes."""
    for name, parameter in signature(type(value)).parameters.items():
        found = getattr(value, name, getattr(value, f"_{name}", value))
        if found is value:
            yield "…"
        elif parameter.default is Parameter.empty or found not in (parameter.default, []):
            yield f"{name}={shortened(found)}"


def _table(rows: str, head: str = "") -> str:
    return f"<table>{head}<tbody>{rows}</tbody></table>"


def _row(cells: Sequence[str], head: int = 0) -> str:
    tags = ["th"] * head + ["td"] * (len(cells) - head)
    inner = "".join(
        f"<{tag}{_CELL}>{escape(str(cell))}</{tag}>" for tag, cell in zip(tags, cells, strict=True)
    )
    return f"<tr>{inner}</tr>"


_UNITS = ("kB", "MB", "GB", "TB", "PB")
#: Everything before the last ``@`` may be part of a password.
_PASSWORD = re.compile(r"(://[^/:@]*:)[^\s,]*(?=@)")
#: Values in a URL's query string. Depending on the storage, any of them may be a secret.
_QUERY_VALUE = re.compile(r"([?&][^=&#\s/]+=)[^&#\s,]+")
_HIDDEN = r"\1***"


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun, such as ``"1 shard"`` or ``"2,000 shards"``."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def human_bytes(size: float) -> str:
    """Return a human-readable size, in powers of 1,000: ``"1.2 GB"``."""
    if size < 1000:
        return f"{size:.0f} B"
    for unit in _UNITS:
        size /= 1000
        if size < 999.95:  # 999.95 and above would be shown as 1,000.0
            return f"{size:,.1f} {unit}"
    return f"{size:,.1f} {_UNITS[-1]}"


def shown_url(url: str) -> str:
    """Return a URL with possible secrets hidden: passwords and query values."""
    shown = redact(_PASSWORD.sub(_HIDDEN, url))
    return _QUERY_VALUE.sub(_HIDDEN, shown) if "://" in shown else shown


#: A function to call with the progress; False to show none; None or True for the default.
Progress: TypeAlias = OnProgress | bool | None
#: Minimum number of seconds between two updates of a progress line.
INTERVAL = 0.1
#: The environment variable that turns all progress off: ``off``, ``0``, ``false`` or ``no``.
VARIABLE = "MDSTORM_PROGRESS"
_OFF = frozenset({"off", "0", "false", "no"})
#: Held while a progress line is shown on the terminal, so that there is only one at a time.
_terminal = threading.Lock()

#: A progress line that is being shown.
LiveLine: TypeAlias = "_TerminalLine | _NotebookLine"


@contextmanager
def progress(what: str, unit: str, given: Progress = None) -> Iterator[OnProgress | None]:
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
    callable or None
        A function to call from any thread with the number of finished items and the total; None
        if nothing is shown.
    """
    if callable(given):
        yield given
        return
    line = None if given is False else open_line()
    if line is None:
        yield None
        return
    shown = ThrottledLine(line, what)
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
    """Shows the number and size of written files, if `shown` is True and progress can be shown."""

    def __init__(self, *, shown: bool) -> None:
        self._files = self._bytes = 0
        self._line = ThrottledLine(open_line() if shown else None, "Writing MDS shards")

    def add(self, size: int) -> None:
        """Count a file of `size` bytes."""
        self._files += 1
        self._bytes += size
        self._line.draw(self._text)

    @property
    def _text(self) -> str:
        return f"{counted(self._files, 'file')}, {human_bytes(self._bytes)}"

    def close(self) -> None:
        """End the line."""
        self._line.close(self._text)


class ThrottledLine:
    """Draws a line at most ten times a second, from any thread, and never raises.

    Parameters
    ----------
    line : LiveLine or None
        The line; None shows nothing.
    what : str
        Description of the work, shown at the start of the line.
    """

    def __init__(self, line: LiveLine | None, what: str) -> None:
        self._line = line
        self._what = what
        self._begun = time.monotonic()
        self._drawn = self._begun - INTERVAL
        self._lock = threading.Lock()

    def draw(self, text: str, done: int | None = None, total: int | None = None) -> None:
        """Show a line of text, unless the previous line was drawn too recently."""
        now = time.monotonic()
        if now - self._drawn < INTERVAL or not self._lock.acquire(blocking=False):
            return
        try:
            if self._line is not None:
                self._drawn = now
                self._line.draw(f"{self._what}: {text}", done, total)
        except Exception:  # the terminal may be closed: the work continues without it
            self._close("")
        finally:
            self._lock.release()

    def close(self, text: str = "") -> None:
        """End the line, with `text` if it is given. May be called more than once."""
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


def open_line(*, in_terminal: bool = True) -> LiveLine | None:
    """Return a new progress line, or None if no line should be shown.

    No line is shown if the output is neither a terminal nor a notebook, if the terminal already
    shows one, on ranks other than the first, in worker processes, or if `VARIABLE` turns it off.

    Parameters
    ----------
    in_terminal : bool
        Whether a terminal may show the line.
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
    except Exception:  # a display error must not stop the work
        return None


def _is_notebook() -> bool:
    """Whether this process runs an IPython kernel, as notebooks do."""
    ipython: Any = sys.modules.get("IPython")
    try:
        return getattr(ipython.get_ipython(), "kernel", None) is not None
    except AttributeError:  # IPython is not imported, or is being imported
        return False


def _is_terminal() -> bool:
    try:
        return sys.stderr.isatty()
    except (AttributeError, ValueError):  # there is no standard error, or it is closed
        return False


def _is_first() -> bool:
    """Whether this is the main process of the first rank, the only one that shows progress."""
    if parent_process() is not None:
        return False
    from mdstorm_backend.order import find_world  # imported only where progress can be shown

    try:
        return find_world().rank == 0
    except Exception:  # invalid variables are reported by the code that needs the world
        return False


class _TerminalLine:
    """A line on standard error, drawn by rich in the caller's thread."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        class Lenient(Console):
            def on_broken_pipe(self) -> None:
                raise BrokenPipeError  # rich's own method exits the program

        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=12),
            TextColumn("{task.fields[text]}", markup=False),
            TimeElapsedColumn(),
            console=Lenient(stderr=True),
            transient=True,
            auto_refresh=False,
            redirect_stdout=False,  # otherwise, printed output would go to standard error
        )
        self._bar.start()
        self._task = self._bar.add_task("", total=None, text="")

    def draw(self, text: str, done: int | None = None, total: int | None = None) -> None:
        """Show a line of text and a bar that shows the completed fraction if the total is known."""
        what, _, rest = text.partition(": ")
        self._bar.update(self._task, description=what, text=rest, completed=done or 0, total=total)
        self._bar.refresh()

    def close(self, text: str = "") -> None:
        """Remove the line from the terminal. Only notebooks keep `text`."""
        try:
            self._bar.stop()
        finally:
            _terminal.release()


class _NotebookLine:
    """One output of a notebook cell, updated in place."""

    def __init__(self) -> None:
        display: Any = import_module("IPython.display").display
        self._since = time.monotonic()
        self._handle: Any = display(_outputs(""), raw=True, display_id=True)

    def draw(self, text: str, done: int | None = None, total: int | None = None) -> None:
        seconds = time.monotonic() - self._since
        self._handle.update(_outputs(f"{text}, {seconds:.0f} s", done, total), raw=True)

    def close(self, text: str = "") -> None:
        self._handle.update(_outputs(text), raw=True)


def _outputs(text: str, done: int | None = None, total: int | None = None) -> dict[str, str]:
    """Return the representations that a notebook displays, by MIME type."""
    bar = f'<progress value="{done}" max="{total}"></progress> ' if total else ""
    return {"text/plain": text, "text/html": f"<div>{bar}{escape(text)}</div>"}
