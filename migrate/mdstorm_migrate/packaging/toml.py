"""Positions of strings and keys in a TOML file, for edits that keep the rest as it is."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_VALUES = r"""
    \"\"\"(?:[^\\]|\\.)*?\"\"\" | '''.*?'''
  | "(?P<basic>(?:[^"\\\n]|\\.)*)" | '(?P<literal>[^'\n]*)'
  | \#[^\n]*
  | (?P<open>[\[{]) | (?P<close>[\]}])
"""
#: What may stand inside of an array or an inline table.
_INSIDE = re.compile(_VALUES, re.VERBOSE | re.DOTALL)
_NAME = r"""(?:[A-Za-z0-9_-]+|"[^"\n]*"|'[^'\n]*')"""
_TOKEN = re.compile(
    rf"""
    ^[ \t]*\[{{1,2}} (?P<table>[^\[\]\n]+) \]{{1,2}}
  | ^[ \t]*(?P<key>{_NAME}(?:[ \t]*\.[ \t]*{_NAME})*)[ \t]*=
  | {_VALUES}
    """,
    re.VERBOSE | re.MULTILINE | re.DOTALL,
)

_BRACKET = re.compile(r"""[\[\]]|"[^"\n]*"|'[^'\n]*'|\#[^\n]*""")


@dataclass(frozen=True)
class TomlString:
    """A string of one line.

    Attributes
    ----------
    table, key : str
        The table, and the last key that began a line: that of the string, or of its array.
    start, stop : int
        What is between the quotes, in characters.
    value : str
    """

    table: str
    key: str
    start: int
    stop: int
    value: str


@dataclass(frozen=True)
class TomlKey:
    """A key at the beginning of a line, or the last part of a table's name.

    Attributes
    ----------
    table : str
        The table that it belongs to.
    name : str
        Without quotes.
    start, stop : int
        The name, in characters.
    value_start, value_stop : int
        What follows the equals sign, up to the end of the line; empty for a table.
    """

    table: str
    name: str
    start: int
    stop: int
    value_start: int
    value_stop: int


def toml_strings(text: str) -> Iterator[TomlString]:
    """Yield the strings of one line, those that are parts of keys left out."""
    table = key = ""
    for match in _tokens(text):
        found = match.groupdict()
        if found.get("table") is not None:
            table, key = _plain(match["table"]), ""
        elif found.get("key") is not None:
            key = _plain(match["key"])
        else:
            yield from _string(match, table, key)


def toml_keys(text: str) -> Iterator[TomlKey]:
    """Yield keys, and tables as the keys of the tables above them."""
    table = ""
    for match in _tokens(text):
        found = match.groupdict()
        if found.get("table") is not None:
            table = _plain(match["table"])
            above, _, name = table.rpartition(".")
            start = match.start("table") + match["table"].rfind(name)
            yield TomlKey(above, name, start, start + len(name), match.end(), match.end())
        elif found.get("key") is not None:
            name = _plain(match["key"])
            start = match.start("key") + match["key"].find(name)
            end = text.find("\n", match.end())
            stop = len(text) if end < 0 else end
            yield TomlKey(table, name, start, start + len(name), match.end(), stop)


def value_of(text: str, key: TomlKey) -> tuple[int, int]:
    """Return the span of the value of a key, which may be a table of its own."""
    if key.value_start == key.value_stop:
        return key.value_start, _end_of_table(text, key.value_stop)
    if text[key.value_start : key.value_stop].lstrip().startswith("["):
        return key.value_start, _end_of_array(text, key.value_start)
    return key.value_start, key.value_stop


def _tokens(text: str) -> Iterator[re.Match[str]]:
    """Yield tables and keys, and what stands in values.

    A line inside of an array is no key and no table, whatever it looks like.
    """
    position = depth = 0
    while match := (_INSIDE if depth else _TOKEN).search(text, position):
        position = match.end()
        depth = max(depth + bool(match["open"]) - bool(match["close"]), 0)
        yield match


def _string(match: re.Match[str], table: str, key: str) -> Iterator[TomlString]:
    for group in ("basic", "literal"):
        if match[group] is not None:
            yield TomlString(table, key, *match.span(group), match[group])


def _plain(name: str) -> str:
    return name.replace('"', "").replace("'", "").strip()


def _end_of_array(text: str, start: int) -> int:
    """Return where the array that begins at `start`, or behind white space, ends."""
    depth = 0
    for part in _BRACKET.finditer(text, start):
        depth += {"[": 1, "]": -1}.get(part.group(), 0)
        if depth == 0:
            return part.end()
    return len(text)


def _end_of_table(text: str, start: int) -> int:
    """Return where the table that begins at `start` ends: at the next one."""
    following = (key.start for key in toml_keys(text) if key.start > start and _is_table(text, key))
    return next(following, len(text))


def _is_table(text: str, key: TomlKey) -> bool:
    return text[text.rfind("\n", 0, key.start) + 1 : key.start].lstrip().startswith("[")
