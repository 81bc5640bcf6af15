"""Text files that people read: notes, instructions, sessions that were copied."""

from __future__ import annotations

import re

from mdstorm_migrate.base.document import Document

#: A sentence, a line of a session in Python, or one with a date before words.
_PROSE = re.compile(
    r"""^[ \t]*(?: >>>[ ]
    | \[?\d{4}-\d\d-\d\d[\dTZ:.,+ ]*\]?[ ]*[:-]?[ ]+ (?:[\w'()`=.-]+[,;:]?[ ]){3}
    | (?:[-*][ ]|\d+[.)][ ])? [A-Z]\w*,? (?:[ ][\w'()"`-]+[,;:]?){2,} (?:[ ]|[.!?:]?[ \t]*\r?$)
    | (?!\#|[$%][ ])(?:[\w'(),`=-]+[ ]){3,}[\w'()`-]+[.!?:][ \t]*\r?$ )""",
    re.MULTILINE | re.VERBOSE,
)
_PAGES = frozenset({".adoc", ".asciidoc", ".org", ".text", ".txt"})


def is_page(document: Document) -> bool:
    """Whether a document is text for people, which may show commands and runs none."""
    path = document.path
    if path is None or path.suffix.lower() not in _PAGES or path.name == "CMakeLists.txt":
        return False
    return _PROSE.search(document.text) is not None
