"""The values in YAML, JSON and TOML, and which mapping and list each one is in."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from mdstorm_migrate.packaging.toml import toml_keys


class Value(NamedTuple):
    """A value of a key, or an item of the list that a key has.

    Attributes
    ----------
    key : str
    owner : int
        The number of the mapping with the key.
    item_of : int
        The number of the list; 0 for a value by itself.
    start, stop : int
        The span, without quotes.
    style : str
        How it is written, by YAML's name: ``plain``, ``single`` or ``double`` for its quotes;
        ``literal`` or ``folded`` for a block of lines.
    """

    key: str
    owner: int
    item_of: int
    start: int
    stop: int
    style: str


#: What values in brackets consist of: as in JSON, also with plain text.
_FLOW = re.compile(
    r"""\s+ | \#[^\n]* | "(?P<double>(?:[^"\\]|\\.)*)" | '(?P<single>(?:[^']|'')*)'
    | (?P<mark>[\[\]{},]|:(?=[\s"'\[{]))
    | (?P<plain>[^\s\[\]{},"'#](?:[^\[\]{},:\n]|:(?!\s))*?)(?=\s*(?:[\[\]{},\n]|:\s|\Z))""",
    re.VERBOSE | re.DOTALL,
)
#: A line: its indent, marks of items, a key, and what follows them.
_LINE = re.compile(
    r"""(?P<indent>[ ]*)(?P<items>(?:-[ ]+)*)
    (?:(?P<key>"[^"\n]*"|'[^'\n]*'|[\w$.<~/][^\s:\#"'\[\]{}]*)[ ]*:(?=\s|\Z))?
    [ ]*(?:[&!][\w./-]+[ ]+)*(?P<value>[^\n]*)""",
    re.VERBOSE,
)
_BLOCK = re.compile(r"(?:(?P<literal>\|)|(?P<folded>>))[-+\d]*[ ]*(?:\#.*)?\r?")
_BRACKET = re.compile(r"[\[{](?![{%])")
_STRING = re.compile(
    r"""(?:"(?P<double>(?:[^"\\]|\\.)*)"|'(?P<single>(?:[^']|'')*)')[ ]*(?=[\r\n#]|\Z)""",
    re.DOTALL,
)
#: The beginning of a value in TOML, or the whole of a string.
_SETTING = re.compile(
    r"""[ \t]*(?:(?=[\[{])|\"{3}(?P<lines>(?:[^\\]|\\.)*?)\"{3}|'{3}(?P<literal>.*?)'{3}
    |"(?P<double>(?:[^"\\\n]|\\.)*)"|'(?P<single>[^'\n]*)')""",
    re.DOTALL | re.VERBOSE,
)


class _Key(NamedTuple):
    """A key in YAML: the column, the number of its mapping, and that of the list below it."""

    column: int
    name: str = ""
    owner: int = 0
    item_of: int = 0


class ValueReader:
    """Reads the values in YAML and JSON, and numbers their mappings and lists."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = self._number = 0

    def values(self) -> Iterator[Value]:
        """Yield the values of the text."""
        if self._text.lstrip().startswith(("{", "[")):
            yield from self._flow(_Key(0))
        above = [_Key(-1)]
        while self._at < len(self._text):
            yield from self._line(above)

    def settings(self) -> Iterator[Value]:
        """Yield the values of the text in TOML."""
        for one in toml_keys(self._text):
            key = _Key(0, one.name, self._next())
            setting = _SETTING.match(self._text, one.value_start)
            if setting is None or one.is_table:
                continue
            if setting.lastgroup is not None:
                style = "double" if setting.lastgroup in ("lines", "double") else "single"
                yield Value(key.name, key.owner, 0, *setting.span(setting.lastgroup), style)
            else:
                self._at = setting.end()
                yield from self._flow(key)

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _line(self, above: list[_Key]) -> Iterator[Value]:
        """Yield the values that begin on a line, below these keys."""
        line = _LINE.match(self._text, self._at)
        assert line is not None  # it matches any line
        column, item_at = line.start("key"), len(line["indent"])
        column = column - self._at if column >= 0 else line.start("value") - self._at
        owner = 0
        while above[-1].column > (item_at if line["items"] else column - (line["key"] is not None)):
            owner = above[-1].owner * (above[-1].column == column and not line["items"])
            above.pop()
        if line["key"] is not None:
            name = line["key"].strip("\"'")
            above.append(_Key(column, name, owner or self._next(), self._next()))
        key, is_item = above[-1], line["key"] is None and bool(line["items"])
        start = line.start("value")
        self._at = self._end(start)
        item_of = key.item_of if is_item else 0
        depth = column if line["key"] is not None else item_at
        if block := _BLOCK.fullmatch(line["value"]):
            span = self._at, self._further(depth, is_block=True)
            yield Value(key.name, key.owner, item_of, *span, block.lastgroup or "")
        elif _BRACKET.match(line["value"]):
            self._at = start
            yield from self._flow(key)
            self._at = self._end(self._at)
        elif found := _STRING.match(self._text, start):
            style = found.lastgroup or ""
            self._at = self._end(found.end())
            yield Value(key.name, key.owner, item_of, *found.span(style), style)
        elif line["value"].strip() and not line["value"].startswith("#"):
            if line["key"] is not None or is_item:
                self._further(depth, is_block=False)
            stop = start + len(self._text[start : self._at].rstrip())
            yield Value(key.name, key.owner, item_of, start, stop, "plain")

    def _end(self, at: int) -> int:
        """Return where the next line begins."""
        return self._text.find("\n", at) + 1 or len(self._text)

    def _further(self, depth: int, *, is_block: bool) -> int:
        """Move behind the lines that are indented further, and return where they end.

        A comment is a line of a block, and ends a text without quotes.
        """
        while self._at < len(self._text):
            end = self._end(self._at)
            line = self._text[self._at : end].rstrip()
            text = line.lstrip(" ")
            is_other = len(line) - len(text) <= depth or (text.startswith("#") and not is_block)
            if text and is_other:
                break
            self._at = end
        return self._at

    def _flow(self, key: _Key) -> Iterator[Value]:
        """Yield the values in brackets, and move behind them."""
        stack: list[_Key] = []
        last: Value | None = None
        item_of = 0
        while found := _FLOW.match(self._text, self._at):
            self._at, kind, mark = found.end(), found.lastgroup, found["mark"]
            if kind in ("double", "single", "plain"):
                last = Value(key.name, key.owner, item_of, *found.span(kind), kind)
            elif mark == ":" and last is not None:
                key, last = key._replace(name=self._text[last.start : last.stop].strip()), None
            elif mark:
                yield from [last] if last is not None else []
                last = None
            if mark in ("[", "{"):
                stack.append(key._replace(item_of=item_of))
                item_of = self._next() if mark == "[" else 0
                key = key if item_of else _Key(0, key.name, self._next())
            elif mark in ("]", "}"):
                key = stack.pop() if stack else key
                item_of = key.item_of
            if mark in ("]", "}") and not stack:
                return


def folded(text: str) -> str:
    """Return YAML with spaces for the line breaks that it reads as spaces, of the same length."""
    parts, at = [], 0
    for one in ValueReader(text).values():
        value = text[one.start : one.stop]
        if "\n" in value and one.style != "literal":
            parts += [text[at : one.start], _joined(value, is_block=one.style == "folded")]
            at = one.stop
    return "".join([*parts, text[at:]])


def _joined(value: str, *, is_block: bool) -> str:
    """Return a value whose lines are one, unless one is empty or, in a block, indented further."""
    first = re.search(r"^[ ]*(?=\S)", value, re.MULTILINE)
    indent = first[0] if first is not None and is_block else r"[ \t]*"
    line = re.compile(rf"^({indent}\S.*?)(\r?\n)(?={indent}\S)", re.MULTILINE)
    return line.sub(lambda found: found[1] + " " * len(found[2]), value)
