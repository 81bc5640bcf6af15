"""Files of code that programs ship to clusters: the library, or people's own."""

from __future__ import annotations

import re

from mdstorm_migrate.base.edits import Finding

#: A file of the library has its name, or its name and a version.
_ARCHIVE = re.compile(
    r"(?<![\w/.-])[\w./:-]*(?<![\w.-])petastorm(?P<own>(?:(?!-\d)[\w-][\w.-]*?)?)(?:-\d[\w.+-]*)?"
    r"\.(?:egg|tar\.gz|whl|zip)(?![\w-])"
)
#: What people call what their code needs, packed.
_NEEDED = re.compile(r"dep|env|lib|package|vendor|wheel")
#: What people call an environment that conda-pack or venv-pack has packed.
_ENVIRONMENT = re.compile(r"petastorm[\w.-]*?[_.-](?:conda_?|v)?env(?:ironment)?(?![a-z])")


def shipped_library(value: str) -> str | None:
    """Return the file that a string names, if Petastorm is in it; a job of people's own is not."""
    found = _ARCHIVE.search(value)
    is_own = found is not None and found["own"] and not _NEEDED.search(found["own"])
    return None if found is None or is_own else found[0]


def of_shipped(file: str, rule: str, start: int, stop: int) -> Finding:
    """Report a file that `shipped_library` has found, at its place or that of what names it."""
    if _ENVIRONMENT.search(file):
        what = f"`{file}` is an environment with Petastorm in it"
        remedy = f"{what}: pack it again with mdstorm; its name may stay"
    else:
        what = f"`{file}` belongs to Petastorm"
        remedy = f"{what}: ship mdstorm and mdstorm_backend instead"
    return Finding(rule, "manual", start, stop, what, remedy)
