"""Positions of sections and values in an INI file, for edits that keep the rest as it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_LINE = re.compile(
    r"""^ (?: \[ (?P<section>[^\]\n]*) \]
      | (?P<key>[^\s#;=:\[][^=:\n]*?) [ \t]*[=:]
        (?P<value>[^\n]*(?:\n(?:[ \t]+[^\n]*|(?=[ \t]*\n[ \t])))*) )""",
    re.MULTILINE | re.VERBOSE,
)


@dataclass(frozen=True)
class IniValue:
    """A value, with the lines that continue it; or the name of a section.

    Attributes
    ----------
    section, key : str
        Where it stands; the key of a section's name is empty.
    start, stop : int
        Its span, in characters.
    """

    section: str
    key: str
    start: int
    stop: int


def ini_values(text: str) -> Iterator[IniValue]:
    """Yield the names of sections, and the values in them."""
    section = ""
    for match in _LINE.finditer(text):
        if match["section"] is not None:
            section = match["section"].strip()
            yield IniValue(section, "", *match.span("section"))
        else:
            yield IniValue(section, match["key"].strip(), *match.span("value"))
