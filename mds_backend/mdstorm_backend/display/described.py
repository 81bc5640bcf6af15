"""Objects that describe themselves in a line or a table, and readable quantities."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from inspect import Parameter, signature
from reprlib import repr as shortened

from mdstorm_backend.storage.urls import redact

#: The most rows of a table in a notebook; the number of further rows is shown below it.
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
    rows: Sequence[Sequence[str]] = field(default=())


class Described:
    """Base of objects whose repr and notebook output come from a description, and never raise.

    A subclass overrides `_mdstorm_description`, unless its constructor arguments describe it.
    """

    def _mdstorm_description(self, *, full: bool) -> Description:
        """Return the description: by default the constructor arguments that are attributes.

        Parameters
        ----------
        full : bool
            Whether it is for a notebook, which shows the tables as well. An index on a local disk
            may be read then; nothing is ever downloaded, and no data are read.
        """
        return Description(list(_arguments(self)))

    def __repr__(self) -> str:
        found = _description(self, full=False)
        return f"{type(self).__name__}({', '.join(found.line)})"

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: plain tables, in the colours of its theme."""
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
    """Return the description of an object in any state: closed, deleted or half constructed."""
    for in_full in (full, False):
        try:
            return value._mdstorm_description(full=in_full)
        except Exception:  # debuggers and logs show objects in the middle of failures
            continue
    return Description(["cannot be described now"])


def _arguments(value: Described) -> Iterator[str]:
    """Yield the constructor's arguments except defaults; "…" for those that are not attributes."""
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
#: Everything before the last ``@`` may belong to a password.
_PASSWORD = re.compile(r"(://[^/:@]*:)[^\s,]*(?=@)")
#: The values of a query: any of them may be secret, depending on the storage.
_QUERY_VALUE = re.compile(r"([?&][^=&#\s/]+=)[^&#\s,]+")
_HIDDEN = r"\1***"


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun, such as ``"1 shard"`` or ``"2,000 shards"``."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def human_bytes(size: float) -> str:
    """Return a readable number of bytes, in powers of 1,000: ``"1.2 GB"``."""
    if size < 1000:
        return f"{size:.0f} B"
    for unit in _UNITS:
        size /= 1000
        if size < 999.95:  # from 999.95 on it would be shown as 1,000.0
            return f"{size:,.1f} {unit}"
    return f"{size:,.1f} {_UNITS[-1]}"


def shown_place(url: str) -> str:
    """Return a URL with its possible secrets hidden: passwords, and the values of queries."""
    shown = redact(_PASSWORD.sub(_HIDDEN, url))
    return _QUERY_VALUE.sub(_HIDDEN, shown) if "://" in shown else shown
