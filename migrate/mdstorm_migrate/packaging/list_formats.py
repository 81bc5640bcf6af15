"""Where the formats of files list requirements.

A format only finds the strings that may be requirements. `requirement` decides what a requirement
is, and `rewriting` what replaces it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from mdstorm_migrate.base.document import Document, DocumentKind
from mdstorm_migrate.packaging.requirement import is_versioned
from mdstorm_migrate.packaging.rewriting import RequirementPlace
from mdstorm_migrate.packaging.toml import (
    Setting,
    conda_keys,
    dependency_keys,
    is_constraint,
    requirement_strings,
)

#: A line with its continuation lines, up to its comment; of the options, only ``-e``.
LINE = re.compile(
    r"""^[ \t]*(?P<body>(?!-(?!e\b|-editable\b))
    (?:[^#\\\r\n]+|\\\r?\n(?:[ \t]*\#[^\n]*\n)*|\\.|(?<=\S)\#)*)""",
    re.MULTILINE | re.VERBOSE,
)


@dataclass(frozen=True)
class Listed:
    """A string that may be a requirement.

    Attributes
    ----------
    start, stop : int
        The span in characters.
    place : RequirementPlace or None
        How it is listed; None for what is not written as pip's requirements are: a key, and a
        package that conda installs.
    is_installed : bool
        Whether it is installed; a constraint or an override is not.
    group : str
        The optional group or environment that it belongs to; empty if it is always installed.
    """

    start: int
    stop: int
    place: RequirementPlace | None
    is_installed: bool = True
    group: str = ""


def listed(document: Document) -> Iterator[Listed]:
    """Yield the strings that may be requirements: each format only says where they are."""
    find = _FORMATS.get(document.kind)
    return iter(()) if find is None else find(document)


def _of_lines(document: Document) -> Iterator[Listed]:
    for line in LINE.finditer(document.text):
        value = line["body"].partition(" --")[0].rstrip("\\ \t\r\n")
        yield Listed(line.start("body"), line.start("body") + len(value), "line")


#: Tables whose packages are always installed.
_ALWAYS = ("dependencies", "packages", "tool.pixi.dependencies", "tool.poetry.dependencies")
#: The same for arrays; a script's own metadata have no table.
_ALWAYS_LISTED = ("/dependencies", "project/dependencies")


def _of_toml(document: Document) -> Iterator[Listed]:
    for string in requirement_strings(document.text):
        where = f"{string.section}/{string.key}"
        group = "" if where in _ALWAYS_LISTED else where
        is_installed = not is_constraint(string.key)
        yield Listed(string.start, string.stop, "string", is_installed, group)
    for key in dependency_keys(document.text):
        group = "" if key.table in _ALWAYS else key.table
        yield Listed(key.start, key.stop, None, not is_constraint(key.table), group)
    for key in conda_keys(document):
        group = "" if key.table in _ALWAYS else key.table
        yield Listed(key.start, key.stop, None, group=group)


_INI_LINE = re.compile(
    r"""^ (?: \[ (?P<section>[^\]\n]*) \]
      | (?P<key>[^\s#;=:\[][^=:\n]*?) [ \t]*[=:]
        (?P<value>[^\n]*(?:\n(?:[ \t]+[^\n]*|(?=[ \t]*\n[ \t])))*) )""",
    re.MULTILINE | re.VERBOSE,
)
#: Keys whose values are requirements, one per line; in tox, with factors before them.
_REQUIREMENTS = re.compile(r"(?:install_|setup_|tests_)?requires?|deps")
_INI_EXTRAS = "options.extras_require"
_REQUIREMENT = re.compile(
    r"(?:^|(?<=[=:]))[ \t]*(?:[\w,{}!-]+:[ \t]*)?(?P<requirement>\w[^\r\n]*)", re.MULTILINE
)


def ini_values(text: str) -> Iterator[Setting]:
    """Yield the names of sections and the values in each section."""
    section = ""
    for match in _INI_LINE.finditer(text):
        if match["section"] is not None:
            section = match["section"].strip()
            yield Setting(section, "", *match.span("section"))
        else:
            yield Setting(section, match["key"].strip(), *match.span("value"))


def _of_ini(document: Document) -> Iterator[Listed]:
    for value in ini_values(document.text):
        if value.key and (value.section == _INI_EXTRAS or _REQUIREMENTS.fullmatch(value.key)):
            for line in _REQUIREMENT.finditer(document.text, value.start, value.stop):
                group = "" if value.key == "install_requires" else f"{value.section}/{value.key}"
                yield Listed(*line.span("requirement"), "ini", group=group)


_ITEM = re.compile(r"""^(?P<indent>[ \t]*)-[ \t]+(?P<value>[^#\r\n]*)""", re.MULTILINE)
_PIP = re.compile(r"pip[ \t]*:[ \t]*")


def _of_conda(document: Document) -> Iterator[Listed]:
    pip_indent: int | None = None
    for item in _ITEM.finditer(document.text):
        indent = len(item["indent"].expandtabs())
        if pip_indent is not None and indent <= pip_indent:
            pip_indent = None
        if _PIP.fullmatch(item["value"]):
            pip_indent = indent
        else:
            start, value = item.start("value"), item["value"].rstrip()
            yield Listed(start, start + len(value), None if pip_indent is None else "item")


#: Maximum number of characters between ``pypi`` and a package that follows it.
_NEAR = 200
#: How an unquoted entry is listed, by the group of the pattern that matches it.
_UNQUOTED: dict[str | None, RequirementPlace] = {"plain": "item", "flow": "alone"}
#: A job's library, lists of requirements, and their entries.
_LIBRARY = re.compile(
    r"""["']?\bpackage["']?[ \t]*[:=][ \t]*
    (?: "(?P<double>[^"\r\n]*)" | '(?P<single>[^'\r\n]*)' | (?P<plain>[^"'\s,}\#]+) )""",
    re.VERBOSE,
)
_LISTS = re.compile(
    r"""["']?\b(?:(?:additional_)?dependencies|requirements|pip)["']?[ \t]*[:=][ \t]*
    (?P<items> \[ (?: "[^"]*" | '[^']*' | [^\]"'] )* \] | (?: \r?\n[ \t]*-[ \t][^\r\n]* )+ )""",
    re.VERBOSE,
)
#: The names of jobs and tasks, which others may list without a version.
_DEFINED = re.compile(
    r"""^[ \t]*(?: (?:-[ \t]+)?name[ \t]*:[ \t]*["']?([\w.-]+)["']?[ \t]*$
    | ["']?([\w.-]+)["']?[ \t]*: )""",
    re.MULTILINE | re.VERBOSE,
)
_LISTED = re.compile(
    r""""(?P<double>[^"\n]*)"|'(?P<single>[^'\n]*)'|-[ \t]+(?P<plain>[^"'\s][^\r\n#]*)
    |[\[,]\s*(?P<flow>[^"'\s\[\],][^\r\n,\]]*)""",
    re.VERBOSE,
)


def _of_jobs(document: Document) -> Iterator[Listed]:
    text = document.text
    for match in _LIBRARY.finditer(text):
        span = match.span(match.lastgroup or 0)
        above = text[max(match.start() - _NEAR, 0) : match.start()]
        if "pypi" in above or is_versioned(text[slice(*span)]):
            yield Listed(*span, "alone")
    lists = [*_LISTS.finditer(text)]
    defined = {name for names in _DEFINED.findall(text) for name in names} if lists else ()
    for items in lists:
        for item in _LISTED.finditer(text, *items.span("items")):
            place = _UNQUOTED.get(item.lastgroup, "string")
            if item[item.lastgroup or 0].strip() not in defined:
                yield Listed(*item.span(item.lastgroup or 0), place)


#: Finds the strings in each kind of file that may be requirements.
_FORMATS: dict[DocumentKind, Callable[[Document], Iterator[Listed]]] = {
    "cluster": _of_jobs,
    "conda": _of_conda,
    "pipfile": _of_toml,
    "pyproject": _of_toml,
    "requirements": _of_lines,
    "setup_cfg": _of_ini,
}
