"""Files of code that programs ship to clusters: the library, or people's own."""

from __future__ import annotations

import re

#: A file of the library has its name, or its name and a version.
_ARCHIVE = re.compile(
    r"(?<![\w/.-])[\w./:-]*(?<![\w.-])petastorm(?P<own>(?:(?!-\d)[\w-][\w.-]*?)?)(?:-\d[\w.+-]*)?"
    r"\.(?:egg|tar\.gz|whl|zip)(?![\w-])"
)
#: What people call what their code needs, packed.
_NEEDED = re.compile(r"dep|env|lib|package|vendor|wheel")


def shipped_library(value: str) -> str | None:
    """Return the file that a string names, if Petastorm is in it; a job of people's own is not."""
    found = _ARCHIVE.search(value)
    is_own = found is not None and found["own"] and not _NEEDED.search(found["own"])
    return None if found is None or is_own else found[0]
