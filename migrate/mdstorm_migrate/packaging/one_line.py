"""Parts of one line of a shell: what ``python -c`` imports beside an install."""

from __future__ import annotations

import re

from mdstorm_migrate.petastorm.names import OLD_ROOT, missing

#: A line with those that a backslash joins to it.
_LOGICAL = re.compile(r"(?:[^\n\\]|\\\r?\n|\\.|\\\Z)*(?:\n|\Z)")
_OPENED = re.compile(r"""-c[ \t]+(?P<quote>\\*["'])[^"']*\Z""")
_PATH = r"[A-Za-z_]\w*(?:\.\w+)*"
_IMPORT = re.compile(
    rf"import[ ]+({_PATH}(?:[ ]+as[ ]+\w+)?(?:[ ]*,[ ]*{_PATH}(?:[ ]+as[ ]+\w+)?)*)"
)
_FROM = re.compile(rf"from[ ]+(?P<module>{_PATH})[ ]+import[ ]+(?P<names>\w+(?:[ ]*,[ ]*\w+)*)")
#: A name that ``import`` gives to the library, or to a part of it.
_BOUND = re.compile(rf"from[ ]+{OLD_ROOT}\b|\b{OLD_ROOT}(?:\.\w+)*[ ]+as\b")
#: What every module has, such as its version and its file.
_OF_MODULE = re.compile(rf"(?<![\w.]){OLD_ROOT}\.__\w+__")
_NAME = re.compile(rf"(?<![\w.]){OLD_ROOT}(?!\w)")


def line_around(text: str, position: int) -> tuple[int, int]:
    """Return the span of the line around a character, with those that a backslash joins to it."""
    spans = (line.span() for line in _LOGICAL.finditer(text))
    return next(span for span in spans if position < span[1] or span[1] == len(text))


def plain_imports(text: str, position: int) -> list[tuple[int, int]]:
    """Return where Petastorm is named in the code of ``python -c`` around a character.

    Empty where the code does more than import what mdstorm has as well, and print its version.
    """
    line, end = line_around(text, position)
    opened = _OPENED.search(text, line, position)
    stop = -1 if opened is None else text.find(opened["quote"], position, end)
    if opened is None or stop < 0:
        return []
    start = opened.end("quote")
    code = text[start:stop]
    is_bound = _BOUND.search(code) is not None
    if not all(_is_plain(one.strip(), is_bound) for one in code.split(";")):
        return []
    return [(start + found.start(), start + found.end()) for found in _NAME.finditer(code)]


def _is_plain(statement: str, is_bound: bool) -> bool:
    """Whether a statement imports what both libraries have, or only says something.

    `is_bound` is whether parts of the library have names that what is said may call.
    """
    if found := _IMPORT.fullmatch(statement):
        paths = [one.split()[0] for one in found[1].split(",")]
    elif found := _FROM.fullmatch(statement):
        paths = [f"{found['module']}.{name.strip()}" for name in found["names"].split(",")]
    else:
        rest = _OF_MODULE.sub("", statement)
        said = r"print\([^()]*\)" if is_bound else r"print\(.*\)"
        is_said = re.fullmatch(said, rest) is not None
        return not rest or (is_said and OLD_ROOT not in rest)
    return all(_is_shared(path) for path in paths)


def _is_shared(path: str) -> bool:
    return path.partition(".")[0] != OLD_ROOT or missing(path) is None
