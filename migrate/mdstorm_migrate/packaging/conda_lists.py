"""Lists of packages that conda writes: of ``conda list --export``, or of URLs (``--explicit``)."""

from __future__ import annotations

import re

from mdstorm_migrate.petastorm.names import OLD_ROOT

#: A package with its version, and with its build if conda has written the list.
_PACKAGE = re.compile(r"(?P<name>[a-z0-9_][a-z0-9_.-]*)=(?P<version>\d[\w.!+]*)(?:=[\w.]+)?")
_URL = re.compile(
    r"\w+://\S+/(?P<name>[\w.-]+?)-(?P<version>\d[^-\s/]*)-[^-\s/]+\.(?:tar\.bz2|conda)(?:\#\w+)?"
)
_LINE = re.compile(r"^[^\S\n]*(?P<entry>[^#\s][^\n]*?)[^\S\n]*$", re.MULTILINE)
#: What to do about Petastorm in one.
REMEDY = "write this list again from an environment that has mdstorm, by pip"


def conda_packages(text: str) -> dict[str, re.Match[str]]:
    """Return the packages of a list by name, with ``version``; none of a text that is no list."""
    if OLD_ROOT not in text:
        return {}
    entries = [line.span("entry") for line in _LINE.finditer(text)]
    entries = [span for span in entries if text[slice(*span)] != "@EXPLICIT"]
    found = [_PACKAGE.fullmatch(text, *span) or _URL.fullmatch(text, *span) for span in entries]
    packages = [one for one in found if one is not None]
    return {one["name"]: one for one in packages if len(packages) == len(entries)}
