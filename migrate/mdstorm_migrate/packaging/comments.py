"""Which text is commented out."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import lru_cache

#: Patterns of comment markers: for shells, YAML and Dockerfiles; for these and C-like languages;
#: and for SQL. In the last two, lines that Databricks writes for magics are not comments.
SHELL = re.compile(r"(?:^|\s)#")
ANY = re.compile(r"(?:^|\s)(?:#|//|/\*)(?![ ]MAGIC\b)")
SQL = re.compile(r"(?:^|\s)--(?![ ]MAGIC\b)")
_LINE = re.compile(r"[^\r\n]*")
#: A quoted word, whose marks are characters for what follows it; an apostrophe begins none.
_QUOTED = re.compile(r"""(?<![\w\\])(?:"(?:[^"\\]|\\.)*"|'[^']*')(?!\w)""")


def is_commented_out(text: str, position: int, marks: re.Pattern[str] = SHELL) -> bool:
    """Whether the character at `position` is in a comment that begins on the same line."""
    start = text.rfind("\n", 0, position) + 1
    start = text.rfind("\r", start, position) + 1 or start
    return any(mark <= position < stop for mark, stop in _marks(text, start, marks))


@lru_cache(maxsize=2)
def _marks(text: str, start: int, marks: re.Pattern[str]) -> Sequence[tuple[int, float]]:
    """Return the ends of the comment markers on a line, each with the end of the comment.

    The first one outside of quotes is the last. This is cached because lines may be long.
    """
    line = _LINE.match(text, start)[0]  # type: ignore[index]  # it always matches
    if marks.search(line) is None:
        return ()
    ends: list[tuple[int, float]] = []
    at = 0
    for quoted in _QUOTED.finditer(line):
        if marks.search(line, at, quoted.start()) is not None:
            break
        if (mark := marks.search(line, *quoted.span())) is not None:
            ends.append((start + mark.end(), start + quoted.end()))
        at = quoted.end()
    if (mark := marks.search(line, at)) is not None:
        ends.append((start + mark.end(), math.inf))
    return ends
