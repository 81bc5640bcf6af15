"""What is a text, and what a name, in code of other languages than Python."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import PurePath

_SUFFIX = re.compile(
    r"\.(?:cc?|cjs|cpp|cs|go|gradle|groovy|h|hpp|java|jl|[jt]sx?|kts?|lua|mjs|php|p[lm]|r|rb|rs|sc"
    r"|scala|swift)"
)
#: Texts and comments, which hold no names; a text of one line ends with it.
_TEXT = re.compile(
    r'''"""(?:[^\\]|\\.)*?""" | \'\'\'(?:[^\\]|\\.)*?\'\'\' | `(?:[^`\\]|\\.)*`
    | "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' | /\*.*?\*/ | (?<![:\w])//[^\n]*''',
    re.VERBOSE | re.DOTALL,
)
#: What stands around a name that is handed on, joined to something or given a value.
_BEFORE = re.compile(r"[,(+=\[][ \t]*\Z")
_AFTER = re.compile(r"[ \t]*(?:[,)+;.\]]|=(?!=))")


def is_code(path: PurePath | None) -> bool:
    """Whether a file is code of a language that has texts in quotes."""
    return path is not None and (
        path.name == "Jenkinsfile" or _SUFFIX.fullmatch(path.suffix.lower()) is not None
    )


def is_name(text: str, start: int, stop: int) -> bool:
    """Whether a word of such code is a name: it is in no text, and stands as names do."""
    if any(first <= start < last for first, last in _texts(text)):
        return False
    line = text.rfind("\n", 0, start) + 1
    around = _BEFORE.search(text, line, start) or _AFTER.match(text, stop)
    return around is not None or not text[start:stop].islower()


@lru_cache(maxsize=4)
def _texts(text: str) -> tuple[tuple[int, int], ...]:
    return tuple(found.span() for found in _TEXT.finditer(text))
