"""Whether what stands on a line of a file that is not Python is commented out."""

from __future__ import annotations

import math
import re
from functools import lru_cache

#: Beginnings of comments: in shells, YAML and Dockerfiles; also in the likes of C; in INI files.
SHELL = re.compile(r"(?:^|\s)#")
ANY = re.compile(r"(?:^|\s)(?:#|//|/\*)|^[ \t]*\*[ \t]+(?![*\d/,-])")
INI = re.compile(r"(?:^|\s)[#;]")
#: In SQL, but for the lines of cells that Databricks writes as such comments.
SQL = re.compile(r"(?:^|\s)--(?![ ]MAGIC\b)|/\*")
_LINE = re.compile(r"[^\r\n]*")


def is_commented_out(text: str, position: int, marks: re.Pattern[str] = SHELL) -> bool:
    """Whether a comment begins before a character, on its line."""
    start = text.rfind("\n", 0, position) + 1
    start = text.rfind("\r", start, position) + 1 or start
    return _first_mark(text, start, marks) <= position


@lru_cache(maxsize=2)
def _first_mark(text: str, start: int, marks: re.Pattern[str]) -> float:
    """Return where the first beginning of a comment on a line ends: lines may be long."""
    found = marks.search(_LINE.match(text, start)[0])  # type: ignore[index]  # it matches anything
    return math.inf if found is None else start + found.end()
