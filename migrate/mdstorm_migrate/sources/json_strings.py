"""Strings in the text of a JSON file: where they are, and how new text is written there."""

from __future__ import annotations

import bisect
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

#: Keys and indexes from the outermost value inward, such as ``("cells", 3, "source", 0)``.
JsonPath: TypeAlias = tuple[str | int, ...]
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+', re.DOTALL)
_CHARACTER = re.compile(
    r"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}"  # a surrogate pair: one character
    r"|\\u[0-9a-fA-F]{4}|\\.|[^\\]",
    re.DOTALL,
)


def strings_of(text: str) -> Iterator[tuple[JsonPath, int, int]]:
    """Yield the path and span, without quotes, of each string value in a valid JSON text."""
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
    """Text that is written as one JSON string, or as a list of them.

    Attributes
    ----------
    file : str
        The text of the file.
    spans : sequence of (int, int)
        The span of each string in the file, without its quotes.
    is_list : bool
        Whether each line is a string in a list.
    """

    file: str
    spans: Sequence[tuple[int, int]]
    is_list: bool

    @cached_property
    def text(self) -> str:
        """The values of the strings, concatenated."""
        return "".join(json.loads(f'"{self.file[a:b]}"', strict=False) for a, b in self.spans)

    def span(self, start: int, stop: int) -> tuple[int, int]:
        """Return the span in the file for a span of `text`."""
        at = self._place(start, ends=False)
        return at, at if start == stop else self._place(stop, ends=True)

    def spell(self, replacement: str, start: int, stop: int) -> str:
        """Return `replacement` escaped for JSON; if the text is a list, as one string per line."""
        lines = replacement.splitlines(keepends=True) if self.is_list else [replacement]
        if self.is_list and replacement.endswith("\n") and not self._ends_string(start, stop):
            lines.append("")
        spelt = [json.dumps(line, ensure_ascii=self.file.isascii())[1:-1] for line in lines]
        return f'"{self._between}"'.join(spelt)

    @cached_property
    def _starts(self) -> list[int]:
        """Where each string begins in `text`, followed by the length of `text`."""
        starts = [0]
        for start, stop in self.spans:
            value = json.loads(f'"{self.file[start:stop]}"', strict=False)
            starts.append(starts[-1] + len(value))
        return starts

    def _place(self, offset: int, ends: bool) -> int:
        """Return the position of `offset` in the file.

        Between two strings, this is the end of the first if `ends`, else the start of the second.
        """
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
        """The file positions of each string's characters, if it has escapes; filled by `_place`."""
        return {}

    def _ends_string(self, start: int, stop: int) -> bool:
        """Whether the span ends where a string in the list ends."""
        return start != stop and stop in self._starts

    @cached_property
    def _between(self) -> str:
        """The text between two strings in the list."""
        if len(self.spans) > 1:
            return self.file[self.spans[0][1] + 1 : self.spans[1][0] - 1]
        first = self.spans[0][0] - 1
        opening = self.file.rfind("[", 0, first)
        return f",{self.file[opening + 1 : first] or ' '}"
