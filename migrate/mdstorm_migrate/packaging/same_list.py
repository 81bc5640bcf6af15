"""Which requirements of Petastorm stand in one list, which needs mdstorm beside them once."""

from __future__ import annotations

import re

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.packaging.comments import ANY, is_commented_out
from mdstorm_migrate.packaging.ini_text import line_head
from mdstorm_migrate.packaging.requirement import (
    Requirement,
    find_requirements,
    is_for_old_python,
)

#: What stands between requirements of two lists, by how they are listed.
_END_OF_LIST: dict[str, re.Pattern[str]] = {
    "line": re.compile(r"(?!)"),
    "string": re.compile(r"[\])}]"),
    "ini": re.compile(r"\n[^\s#;]"),
    "word": re.compile(r"(?<!\\)\n|[;&|]"),
    "item": re.compile(r"\n(?![ \t]*[-#])"),
    "alone": re.compile(r""),
}


def is_second(document: Document, found: Requirement, place: str) -> bool:
    """Whether another requirement of Petastorm stands before one in the same list."""
    text = document.text
    for other in find_requirements(text, 0, found.start):
        rest = text[other.stop :].partition("\n")[0]
        if other.is_url or is_for_old_python(rest) or re.match(r"[ \t]*[:=]", rest):
            continue  # it stays alone, or is a key
        if is_commented_out(text, other.start, ANY):
            continue
        if place == "ini" and line_head(text, other.start)[1] != line_head(text, found.start)[1]:
            continue  # for other environments
        if _END_OF_LIST[place].search(text, other.stop, found.start) is None:
            return True
    return False
