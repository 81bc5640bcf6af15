"""``pip install`` commands in shell scripts, Dockerfiles, notebooks and workflows."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from mdstorm_migrate.base.edits import Finding
from mdstorm_migrate.packaging.comments import is_commented_out
from mdstorm_migrate.packaging.requirement import Requirement, find_requirements
from mdstorm_migrate.packaging.variables import referenced

#: A command up to what ends it: a new line that is not continued, or one of the shell's operators.
#: Comments among the lines of a command, which Dockerfiles may have, do not end it.
_END = r"(?:[^\n\\;&|#]|\\[ \t]*\r?\n(?:[ \t]*\#[^\n]*\n)*|\\.|&(?!&)|\|(?!\|)|(?<!\s)\#)*"
#: Between two words of a command, which may be a list of strings, as in Dockerfiles.
_GAP = r"""(?:[ \t]+|["'][ \t]*,[ \t]*["'])"""
_WORD = r"""(?:"[^"\n]*"|'[^'\n]*'|[^\s"';&|]+)"""
#: A command with its path, wholly in quotes: ``"$VENV/bin/pip" install x``.
_IN_QUOTES = r"""(?<=/)(?:pip[\d.]*|pipenv|poetry|uv|pdm)["'](?=[ \t])"""
_PIP = re.compile(
    rf"(?:(?:\b(?:pip[\d.]*|pipenv|poetry|uv|pdm|rye|pipx)|{_IN_QUOTES}|\$[({{]?PIP\d?[)}}]?\"?){_GAP}"
    rf"(?:(?:pip|tool){_GAP})?"
    rf"(?:-[\w-]+{_GAP})*(?:install|add|download|wheel|inject)\b{_END}"
    rf"|\bpixi{_GAP}add\b(?=[^\n;&|]*[ \t]--pypi\b){_END}"
    rf"|\buvx?(?:[ \t]+(?!--with\b){_WORD})*?(?:[ \t]+--with[ \t=]{_WORD})+)"
)
_CONDA = re.compile(
    rf"\b(?:(?:conda|mamba|micromamba)\b{_GAP}(?:install|create|update)"
    rf"|pixi{_GAP}add)\b(?![^\n;&|]*[ \t]--pypi\b){_END}"
)
#: Commands that name distributions without requiring them, and how they do.
_NAMING = re.compile(rf"\b(?:pip-compile|pip[\d.]*|uv|pdm|pipenv|poetry)\b{_END}")
_OPTION = re.compile(
    r"""(?: --(?:(?:upgrade|reinstall|refresh|no-build|no-binary)-package|no-binary|only-binary)
    (?:[ \t]+|=) | (?P<short>(?<=[ \t])-P[ \t]*) ) ["']?(?:[\w.:-]+,)*\Z""",
    re.VERBOSE,
)
_UPDATE = re.compile(r"(?:pdm|pipenv|poetry)[ \t]+(?:-\S+[ \t]+)*(?:update|upgrade)[ \t]")
#: Between two commands that are strings of a list, as in ``script: ["pip install x", "pytest"]``.
_NEXT = re.compile(r"""["'][ \t]*,[ \t]*["']""")
#: Commands that ask whether the distribution is installed: ``pip freeze | grep petastorm``.
_QUERY = re.compile(
    r"""(?:\b(?:pip[\d.]*|conda|mamba)|\$[({]?PIP\d?[)}]?"?)[ \t]+(?:
        show[ \t]+(?:-[\w-]+[ \t]+)*
      | (?:freeze|list)\b[^\n;&|]*\|[ \t]*[ef]?grep[ \t]+(?:-[\w-]+[ \t]+)*["']?\^? )
    (?P<name>petastorm)(?=["'\s;&|)>]|\Z)""",
    re.VERBOSE,
)
#: Variables of Dockerfiles, shells and makefiles, with their values.
_LINES = r"(?:[^\n\\#]|\\\r?\n|\\.)*"
_VARIABLE = re.compile(
    rf"""^[ \t]*(?:
        (?:ENV|ARG)[ \t]+(?:\\\r?\n[ \t]*)? (?P<docker>\w+) {_LINES}
      | (?:(?:export|local|readonly)[ \t]+)? (?P<shell>\w+) \+?=
        (?:"[^"]*"|'[^']*'|\([^)]*\)|[^\s;&|"'(]*)
      | (?P<make>\w+) [ \t]*(?:[:?+]=|=[ \t]){_LINES} )""",
    re.VERBOSE | re.MULTILINE,
)
#: The names in one of these, up to where their values begin.
_ASSIGNED = re.compile(r"(?<![^\s;])(?P<name>\w+)[ \t]*[:?+]?=(?!=)")
_SPACED = re.compile(r"(?P<name>\w+)[ \t]+")


def install_commands(text: str) -> Iterator[tuple[str, int, int]]:
    """Yield the install commands of a text: ``pip`` or ``conda``, and the span."""
    for tool, pattern in (("pip", _PIP), ("conda", _CONDA)):
        for start, stop in _commands(pattern, text):
            yield tool, start, stop


def command_requirements(text: str) -> Iterator[tuple[str, Requirement]]:
    """Yield the requirements of Petastorm in install commands, with the tool that installs.

    Instead of a tool, it is ``name`` where a command names the distribution without requiring it,
    as ``pip-compile --upgrade-package petastorm`` does.
    """
    named = set(_named(text))
    yield from (("name", found) for found in sorted(named, key=lambda one: one.start))
    for tool, start, stop in install_commands(text):
        for found in find_requirements(text, start, stop):
            if found not in named and not is_commented_out(text, found.start):
                yield tool, found


def _named(text: str) -> Iterator[Requirement]:
    for start, stop in _commands(_NAMING, text):
        updates = _UPDATE.match(text, start, stop) is not None
        for found in find_requirements(text, start, stop):
            option = _OPTION.search(text, start, found.start)
            # To Poetry, -P is a folder.
            is_folder = option is not None and option["short"] and text.startswith("po", start)
            if updates or (option is not None and not is_folder):
                yield found


def queries(text: str) -> Iterator[re.Match[str]]:
    """Yield the commands that ask for the distribution of Petastorm by its ``name``."""
    return (one for one in _QUERY.finditer(text) if not is_commented_out(text, one.start()))


def report_variables(text: str, rule: str) -> Iterator[Finding]:
    """Report variables whose value is a requirement, which other commands may compare or print.

    Without a version or an extra, it counts only where an install command names the variable.
    """
    commands = list(_commands(_PIP, text))
    installed = [text[start:stop] for start, stop in commands]
    for variable in _VARIABLE.finditer(text):
        for found in find_requirements(text, *variable.span()):
            if is_commented_out(text, found.start):
                continue
            if any(start <= found.start < stop for start, stop in commands):
                continue
            name = variable[variable.lastgroup or 0]
            if found.start == variable.start(variable.lastgroup or 0):
                continue  # it is the name
            for other in re.finditer(r"(\w+)=", text[variable.start() : found.start]):
                name = other[1]
            is_plain = text[found.start : found.stop].lower() == "petastorm"
            used = re.compile(rf"\$[({{]?{name}\b")
            if is_plain and not any(map(used.search, installed)):
                continue
            yield Finding(
                rule,
                "manual",
                found.start,
                found.stop,
                f"the variable `{name}` requires Petastorm",
                "require mdstorm here, without a version, and see where the variable is used",
                topic="install",
            )


def installed_values(text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of what variables get that install commands name, or others of these do."""
    commands = [text[start:stop] for _, start, stop in install_commands(text)]
    todo = [name for command in commands for name in referenced(command)]
    values = _values(text) if todo else {}
    while todo:
        for start, stop in values.pop(todo.pop(0), ()):
            yield start, stop
            todo += referenced(text[start:stop])


def _values(text: str) -> dict[str, list[tuple[int, int]]]:
    """Return the spans of what variables get, by their names."""
    found: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for variable in _VARIABLE.finditer(text):
        if is_commented_out(text, variable.start()):
            continue
        at, stop = variable.start(variable.lastgroup or 0), variable.end()
        spaced = _SPACED.match(text, at, stop) if variable["docker"] else None
        names = [spaced] if spaced else [*_ASSIGNED.finditer(text, at, stop)]
        for name, end in zip(names, [*(one.start() for one in names[1:]), stop], strict=False):
            found[name["name"]].append((name.end(), end))
    return found


def _commands(pattern: re.Pattern[str], text: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of the commands that are not commented out."""
    at = 0
    while match := pattern.search(text, at):
        start, at = match.span()
        following = _NEXT.search(text, start, at)
        if following is not None and re.search(r"\s", text[start : following.start()]):
            at = following.start()  # each string is a command, not a word of one
        if not is_commented_out(text, start):
            yield start, at
