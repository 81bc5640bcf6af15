"""Objects that describe themselves in a line or a table, and quantities as people read them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from html import escape
from inspect import Parameter, signature
from reprlib import repr as shortened

from mdstorm_backend.storage.urls import redact

#: Rows of a table in a notebook; what is left out is counted.
_MOST_ROWS = 200
_CELL = ' style="text-align:left"'


@dataclass(frozen=True)
class Description:
    """What an object tells of itself.

    Attributes
    ----------
    line : sequence of str
        What stands in the brackets of the one line, in order.
    facts : sequence of (str, str)
        Names and values of the table in a notebook, in order.
    headings : sequence of str
        Those of a second table.
    rows : sequence of sequence of str
        Its rows.
    """

    line: Sequence[str]
    facts: Sequence[tuple[str, str]] = ()
    headings: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = field(default=())


class Described:
    """Shows itself as its description says, and never raises.

    A subclass overrides `_mdstorm_description`, unless it is what it was made with.
    """

    def _mdstorm_description(self, *, full: bool) -> Description:
        """Return what is shown: by default the arguments that are kept in attributes.

        Parameters
        ----------
        full : bool
            Whether a notebook asks, which shows the tables as well. An index on a local disk may be
            read for it; nothing is ever downloaded, and no data are read.
        """
        return Description(list(_arguments(self)))

    def __repr__(self) -> str:
        found = _description(self, full=False)
        return f"{type(self).__name__}({', '.join(found.line)})"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: plain tables, in the colours of its theme."""
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
    """Return what an object tells, whatever state it is in: closed, deleted or half made."""
    for in_full in (full, False):
        try:
            return value._mdstorm_description(full=in_full)
        except Exception:  # debuggers and logs ask in the middle of failures
            continue
    return Description(["cannot be described now"])


def _arguments(value: Described) -> Iterator[str]:
    """Yield arguments of the constructor by name, but defaults; "…" for those that are not kept."""
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
#: The values of a query: which of them are secret, each storage decides.
_QUERY_VALUE = re.compile(r"([?&][^=&#\s/]+=)[^&#\s,]+")
_HIDDEN = r"\1***"


def counted(count: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun, such as ``"1 shard"`` or ``"2,000 shards"``."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def human_bytes(size: float) -> str:
    """Return a number of bytes for people, in powers of 1,000: ``"1.2 GB"``."""
    if size < 1000:
        return f"{size:.0f} B"
    for unit in _UNITS:
        size /= 1000
        if size < 999.95:  # 1,000.0 of the next unit are shown as 1.0
            return f"{size:,.1f} {unit}"
    return f"{size:,.1f} {_UNITS[-1]}"


def shown_place(url: str) -> str:
    """Return a URL without what may be secret in it: passwords, and the values of queries."""
    shown = redact(_PASSWORD.sub(_HIDDEN, url))
    return _QUERY_VALUE.sub(_HIDDEN, shown) if "://" in shown else shown
