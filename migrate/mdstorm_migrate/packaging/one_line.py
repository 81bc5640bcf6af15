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
#: What code says of a module that it has imported, or says at all.
_SAYS = re.compile(rf"(?:print\()?{OLD_ROOT}\.(?:__version__|__file__)\)?|print\([^()]*\)")
_NAME = re.compile(rf"(?<![\w.]){OLD_ROOT}(?!\w)")


def line_around(text: str, position: int) -> tuple[int, int]:
    """Return the span of the line around a character, with those that a backslash joins to it."""
    lines = (line for line in _LOGICAL.finditer(text) if line.start() <= position <= line.end())
    return next(lines).span()


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
    if not all(_is_plain(one.strip()) for one in code.split(";")):
        return []
    return [(start + found.start(), start + found.end()) for found in _NAME.finditer(code)]


def _is_plain(statement: str) -> bool:
    """Whether a statement imports what both libraries have, or only says something."""
    if found := _IMPORT.fullmatch(statement):
        paths = [one.split()[0] for one in found[1].split(",")]
    elif found := _FROM.fullmatch(statement):
        paths = [f"{found['module']}.{name.strip()}" for name in found["names"].split(",")]
    else:
        return _SAYS.fullmatch(statement) is not None or not statement
    return all(_is_shared(path) for path in paths)


def _is_shared(path: str) -> bool:
    return path.partition(".")[0] != OLD_ROOT or missing(path) is None
