"""Positions of strings in a JSON text, for edits that keep the rest as it is."""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

#: Keys and positions from the outermost value on, such as ``("cells", 3, "source", 0)``.
Path: TypeAlias = tuple[str | int, ...]

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+', re.DOTALL)
_CHARACTER = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a pair makes one character
    r"|\\u[0-9a-fA-F]{4}|\\.|[^\\]",
    re.DOTALL,
)


def strings_of(text: str) -> Iterator[tuple[Path, int, int]]:
    """Yield path and span, without quotes, of each string value of a valid JSON text."""
    path: list[str | int] = []
    key: str | None = None
    is_key = False
    for token in _TOKEN.finditer(text):
        first = token.group()[0]
        if first in "{[":
            path.append("" if first == "{" else 0)
            is_key = first == "{"
        elif first in "}]":
            path.pop()
            is_key = False
        elif first == ",":
            last = path[-1]
            is_key = isinstance(last, str)
            if isinstance(last, int):
                path[-1] = last + 1
        elif first == ":":
            is_key = False
            path[-1] = key or ""
        elif first == '"' and is_key:
            key = json.loads(token.group())
        elif first == '"':
            yield tuple(path), token.start() + 1, token.end() - 1


@dataclass(frozen=True)
class JsonStrings:
    """A text that is written as one JSON string, or as a list of them.

    Attributes
    ----------
    file : str
        The text of the file.
    spans : sequence of (int, int)
        Where each string stands in it, without its quotes.
    is_list : bool
        Whether a new line is a new string.
    """

    file: str
    spans: Sequence[tuple[int, int]]
    is_list: bool

    @cached_property
    def text(self) -> str:
        """What the strings mean, one after the other."""
        return "".join(json.loads(f'"{self.file[a:b]}"', strict=False) for a, b in self.spans)

    def span(self, start: int, stop: int) -> tuple[int, int]:
        """Return the span in the file."""
        at = self._place(start, ends=False)
        return at, at if start == stop else self._place(stop, ends=True)

    def spell(self, replacement: str, start: int, stop: int) -> str:
        """Return `replacement` with escapes, and one string a line if it is a list."""
        lines = replacement.splitlines(keepends=True) if self.is_list else [replacement]
        if self.is_list and replacement.endswith("\n") and not self._ends_string(start, stop):
            lines.append("")
        spelt = [json.dumps(line, ensure_ascii=self.file.isascii())[1:-1] for line in lines]
        return f'"{self._between}"'.join(spelt)

    @cached_property
    def _starts(self) -> list[int]:
        """Where each string begins in `text`; at the end, the length of it."""
        starts = [0]
        for start, stop in self.spans:
            value = json.loads(f'"{self.file[start:stop]}"', strict=False)
            starts.append(starts[-1] + len(value))
        return starts

    def _place(self, offset: int, ends: bool) -> int:
        """Return a character of `text` in the file; between strings, the end of the former."""
        search = bisect.bisect_left if ends else bisect.bisect_right
        number = min(max(search(self._starts, offset) - 1, 0), len(self.spans) - 1)
        at, until = self.spans[number]
        if "\\" not in self.file[at:until]:
            return at + offset - self._starts[number]
        if number not in self._offsets:
            found = _CHARACTER.finditer(self.file, at, until)
            self._offsets[number] = [*(character.start() for character in found), until]
        return self._offsets[number][offset - self._starts[number]]

    @cached_property
    def _offsets(self) -> dict[int, list[int]]:
        """Where each character of a string stands in the file, for strings with escapes."""
        return {}

    def _ends_string(self, start: int, stop: int) -> bool:
        """Whether the span ends where a string of the list ends."""
        return start != stop and stop in self._starts

    @cached_property
    def _between(self) -> str:
        """What stands between two strings of the list."""
        if len(self.spans) > 1:
            return self.file[self.spans[0][1] + 1 : self.spans[1][0] - 1]
        first = self.spans[0][0] - 1
        opening = self.file.rfind("[", 0, first)
        return f",{self.file[opening + 1 : first] or ' '}"
