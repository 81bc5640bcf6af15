"""PM409: definitions of clusters, jobs and workflows in JSON and YAML."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Class, Edit, Finding
from mdstorm_migrate.packaging.commands import command_requirements
from mdstorm_migrate.packaging.companions import COMPANION, note_companion
from mdstorm_migrate.packaging.installing import rewrite_commands
from mdstorm_migrate.packaging.left_installs import with_installs
from mdstorm_migrate.packaging.other_code import uses_of_zeppelin
from mdstorm_migrate.packaging.places import Place
from mdstorm_migrate.packaging.prose import is_searched_for
from mdstorm_migrate.packaging.remaining import report_remaining
from mdstorm_migrate.packaging.requirement import find_requirements, is_requirement, is_versioned
from mdstorm_migrate.packaging.rewriting import rewrite_requirement
from mdstorm_migrate.packaging.runs import rewrite_runs
from mdstorm_migrate.packaging.traces import report_traces
from mdstorm_migrate.packaging.variables import INTERPOLATION
from mdstorm_migrate.petastorm.names import CONF_KEY, NEW_CONF_KEY, OLD_ROOT

CODE = "PM409"
TITLE = "Definitions of clusters and jobs use mdstorm"
CLASS: Class = "exact"
KIND = "cluster"

#: As a key, quoted or not.
_CONF = re.compile(rf"""(?<![\w.])(?P<key>{re.escape(CONF_KEY)})(?=["']?[ \t]*[:=])""")
#: The one place where a job names a library, and lists whose entries are requirements.
_PACKAGE = re.compile(
    rf"""["']?\bpackage["']?[ \t]*:[ \t]*
    (?: "(?P<double>[^"\r\n]*)" | '(?P<single>[^'\r\n]*)'
      | (?P<plain>(?:{INTERPOLATION}|[^"'\s,}}\#])+) )""",
    re.VERBOSE,
)
#: How many characters before a package ``pypi`` stands.
_NEAR = 200
_LISTS = re.compile(
    r"""["']?\b(?:(?:additional_)?dependencies|requirements|pip|pip_packages|pypi|install_requires)["']?
    [ \t]*:[ \t]*
    (?P<items> \[ (?: "[^"]*" | '[^']*' | [^\]"'] )* \]
             | (?: \r?\n[ \t]*-[ \t][^\r\n]* )+ )""",
    re.VERBOSE,
)
_ITEM = re.compile(
    r""""(?P<double>[^"\n]*)"|'(?P<single>[^'\n]*)'|-[ \t]+(?P<plain>[^"'\s][^\r\n#]*)"""
    r"""|[\[,]\s*(?P<flow>[^"'\s\[\],][^\r\n,\]]*)"""
)
_NAME = re.compile(rf"(?<![\w-]){OLD_ROOT}(?![\w-])")
_COMPANION = re.compile(COMPANION, re.IGNORECASE)

#: How an item is listed, by the group of `_ITEM` that it fits.
_PLACES: dict[str, Place] = {
    "double": "string",
    "single": "string",
    "plain": "item",
    "flow": "alone",
}


@with_installs
def check(document: Document) -> Iterator[Edit | Finding]:
    """Yield the edits of Spark's settings, of libraries, and of install commands."""
    text = document.text
    for match in _CONF.finditer(text):
        start, stop = match.span("key")
        # A program that sets Petastorm's key would no longer have its way.
        message = "use mdstorm's key, which takes precedence where a program sets Petastorm's"
        yield Edit(CODE, "review", start, stop, NEW_CONF_KEY, message)
    places: list[tuple[int, int, Place]] = [
        (*match.span(match.lastgroup or 0), "alone")
        for match in _PACKAGE.finditer(text)
        if _is_library(text, match)
    ]
    for items in _LISTS.finditer(text):
        for item in _ITEM.finditer(text, *items.span("items")):
            places.append((*item.span(item.lastgroup or 0), _PLACES[item.lastgroup or ""]))
    for start, stop, place in places:
        if is_requirement(text[start:stop]):
            for found in find_requirements(text, start, stop):
                yield from rewrite_requirement(document, found, CODE, place)
        elif other := _COMPANION.match(text, start, stop):
            yield note_companion(other, CODE)
    yield from rewrite_commands(document, CODE)
    yield from rewrite_runs(document, CODE)
    for name in _NAME.finditer(text):
        if is_searched_for(text, name.start()):
            what = "this hook looks for Petastorm in files"
            yield Finding(CODE, "manual", *name.span(), what, f"{what}: name mdstorm, too")
    told = [*report_traces(document, CODE), *uses_of_zeppelin(text, CODE)]
    yield from told
    done = {one.start for one in told}
    done |= {found.start for _, found in command_requirements(text)}
    for start, stop, _ in places:
        if is_requirement(text[start:stop]):
            done.update(found.start for found in find_requirements(text, start, stop))
    yield from report_remaining(document, CODE, done)


def _is_library(text: str, package: re.Match[str]) -> bool:
    """Whether a package is one that pip installs: it has a version, an extra, or ``pypi`` above."""
    above = text[max(package.start() - _NEAR, 0) : package.start()]
    return "pypi" in above or is_versioned(package[package.lastgroup or 0])
