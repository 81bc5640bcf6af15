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

#: Keys whose values are requirements, one a line; of tox, with factors before them.
_REQUIREMENTS = re.compile(r"(?:install_|setup_|tests_)?requires?|deps")
_EXTRAS = "options.extras_require"
_REQUIREMENT = re.compile(
    r"(?:^|(?<=[=:]))[ \t]*(?:[\w,{}!-]+:[ \t]*)?(?P<requirement>petastorm\b[^\r\n]*)",
    re.MULTILINE | re.IGNORECASE,
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


def requirement_lines(text: str) -> Iterator[re.Match[str]]:
    """Yield the lines that may require Petastorm, as the group ``requirement``."""
    for value in ini_values(text):
        if value.key and (value.section == _EXTRAS or _REQUIREMENTS.fullmatch(value.key)):
            yield from _REQUIREMENT.finditer(text, value.start, value.stop)
