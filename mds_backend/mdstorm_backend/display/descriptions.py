"""`Described`: objects whose repr and notebook output are descriptions."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from inspect import Parameter, signature
from reprlib import repr as shortened

_logger = logging.getLogger(__name__)


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
        shown = _description(self, full=False)
        return f"{type(self).__name__}({', '.join(shown.line)})"

    def _repr_html_(self) -> str:
        """Return HTML for a notebook: plain tables in the colours of its theme."""
        shown = _description(self, full=True)
        pairs: Sequence[Sequence[str]] = shown.facts or [shown.line]
        facts = "".join(map(_row, pairs))
        rows = "".join([_row(shown.headings, "th"), *map(_row, shown.rows)])
        tables = [f"<table>{inner}</table>" for inner in (facts, rows) if inner]
        return "".join([f"<p><b>{escape(type(self).__name__)}</b></p>", *tables])


def _description(value: Described, *, full: bool) -> Description:
    """Return the description of an object in any state, even if closed or partly constructed."""
    for in_full in (full, False):
        try:
            return value._mdstorm_description(full=in_full)
        except Exception:  # debuggers and logs may show objects whose constructor has failed
            _logger.debug("a %s cannot be described", type(value).__name__, exc_info=True)
    return Description(["cannot be described now"])


def _arguments(value: Described) -> Iterator[str]:
    """Yield the non-default constructor arguments, with "…" for those that are not attributes."""
    for name, parameter in signature(type(value)).parameters.items():
        found = getattr(value, name, getattr(value, f"_{name}", value))
        if found is value:
            yield "…"
        elif parameter.default is Parameter.empty or found not in (parameter.default, []):
            yield f"{name}={shortened(found)}"


def _row(cells: Sequence[str], tag: str = "td") -> str:
    inner = "".join(f"<{tag}>{escape(str(cell))}</{tag}>" for cell in cells)
    return f"<tr>{inner}</tr>" if cells else ""
