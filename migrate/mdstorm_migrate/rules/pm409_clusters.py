"""PM409: definitions of clusters, jobs and workflows in JSON and YAML."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Edit, Finding
from mdstorm_migrate.packaging.commands import rewrite_commands
from mdstorm_migrate.packaging.requirement import find_requirements, is_requirement, is_versioned
from mdstorm_migrate.packaging.rewriting import Place, rewrite_requirement
from mdstorm_migrate.rules.rule import rule

CODE = "PM409"

#: Maximum number of characters between ``pypi`` and a package that follows it.
_NEAR = 200
#: How an unquoted item is listed, by the group of the pattern that matches the item.
_PLACES: dict[str, Place] = {"plain": "item", "flow": "alone"}


@cache
def _patterns() -> tuple[re.Pattern[str], re.Pattern[str], re.Pattern[str]]:
    """Return the patterns for a job's library, for requirement lists, and for list entries."""
    package = r"""["']?\bpackage["']?[ \t]*:[ \t]*
        (?: "(?P<double>[^"\r\n]*)" | '(?P<single>[^'\r\n]*)' | (?P<plain>[^"'\s,}\#]+) )"""
    lists = r"""["']?\b(?:(?:additional_)?dependencies|requirements|pip|pip_packages|pypi)["']?
        [ \t]*:[ \t]*
        (?P<items> \[ (?: "[^"]*" | '[^']*' | [^\]"'] )* \]
                 | (?: \r?\n[ \t]*-[ \t][^\r\n]* )+ )"""
    item = r""""(?P<double>[^"\n]*)"|'(?P<single>[^'\n]*)'|-[ \t]+(?P<plain>[^"'\s][^\r\n#]*)
        |[\[,]\s*(?P<flow>[^"'\s\[\],][^\r\n,\]]*)"""
    return tuple(re.compile(one, re.VERBOSE) for one in (package, lists, item))  # type: ignore[return-value]


@rule(CODE, "Cluster and job definitions use mdstorm", "exact", "cluster")
def check(document: Document) -> Iterator[Edit | Finding]:
    """Yield edits to libraries and install commands."""
    for start, stop, place in _places(document.text):
        if is_requirement(document.text[start:stop]):
            for found in find_requirements(document.text, start, stop):
                yield from rewrite_requirement(document, found, CODE, place)
    yield from rewrite_commands(document, CODE)


def _places(text: str) -> Iterator[tuple[int, int, Place]]:
    package, lists, entry = _patterns()
    for match in package.finditer(text):
        above = text[max(match.start() - _NEAR, 0) : match.start()]
        if "pypi" in above or is_versioned(match[match.lastgroup or 0]):
            yield *match.span(match.lastgroup or 0), "alone"
    for items in lists.finditer(text):
        for item in entry.finditer(text, *items.span("items")):
            yield *item.span(item.lastgroup or 0), _PLACES.get(item.lastgroup or "", "string")
