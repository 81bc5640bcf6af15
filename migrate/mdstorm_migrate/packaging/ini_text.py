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

#: A line of an INI file that begins with the requirement, or has it behind its key.
_INI_LINE = re.compile(
    r"^(?:[ \t]+|(?:install_requires|setup_requires|tests_require|deps|requires)[ \t]*=[ \t]*)"
    r"(?:[\w,{}!-]+:[ \t]*)?(?P<requirement>petastorm\b[^\r\n]*)",
    re.MULTILINE | re.IGNORECASE,
)
#: A line of a section whose keys are names of extras, and their values requirements.
_EXTRAS = re.compile(
    r"^\[options\.extras_require\][^\n]*\n(?P<body>(?:(?!\[)[^\n]*\n?)*?)(?=^\[|\Z)", re.MULTILINE
)
_EXTRA = re.compile(r"^[\w.-]+[ \t]*=[ \t]*(?P<requirement>petastorm\b[^\r\n]*)", re.M | re.I)
#: What stands on a line before a requirement, with the factors of tox that it is for.
_HEAD = re.compile(r"(?:(?P<indent>[ \t]+)|[^\n=]*=[ \t]*)(?P<factors>[\w.,{}!-]+:[ \t]*)?\Z")


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
    yield from _INI_LINE.finditer(text)
    for section in _EXTRAS.finditer(text):
        yield from _EXTRA.finditer(text, *section.span("body"))


def line_head(text: str, start: int) -> tuple[str, str]:
    """Return the indent of a line, and the factors before what begins at `start`, as ``py310: ``.

    Either is empty where there is none.
    """
    found = _HEAD.match(text[text.rfind("\n", 0, start) + 1 : start])
    return (found["indent"] or "", found["factors"] or "") if found else ("", "")
