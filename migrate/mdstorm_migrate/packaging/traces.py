"""Uses of Petastorm that commands and definitions have, and that are left to people."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Finding
from mdstorm_migrate.packaging.commands import install_commands
from mdstorm_migrate.packaging.comments import ANY, is_commented_out
from mdstorm_migrate.packaging.loops import LOOP
from mdstorm_migrate.packaging.prose import is_prose
from mdstorm_migrate.packaging.requirement import find_requirements
from mdstorm_migrate.packaging.variables import definition, referenced
from mdstorm_migrate.petastorm.names import OLD_ROOT

_XARGS = re.compile(
    r"(?P<words>[^\n;&|]*)\|[ \t]*xargs\b[^\n;&|]*[ \t](?:pip[\d.]*|uv)[ \t][^\n;&|]*\binstall\b"
)
#: Names of files, which a variable may be a part of.
_IN_FILES = re.compile(r"(?<!\S)-[rce][ \t]+\S+|[^\s\"']*/[^\s\"']*")
_PYTHONPATH = re.compile(
    rf"""\bPYTHONPATH["']?[ \t]*[=:][ \t]*[^\s;&|]*?/(?P<name>{OLD_ROOT})(?=[:/\s"'`;&|]|\Z)"""
)
_VERSION = re.compile(rf"(?<![\w.-]){OLD_ROOT}[_-]?version(?![\w-])", re.IGNORECASE)
#: A module of the environment, as clusters of computers have it: ``module load petastorm/0.12``.
_MODULE = re.compile(
    rf"""(?<![\w.-])(?:module[ \t]+(?:load|add|switch|swap)|(?:^|[;&|])[ \t]*ml(?:[ \t]+load)?)
    [ \t](?:[\w./+-]+[ \t]+)*(?P<name>{OLD_ROOT}(?:/[\w.+-]+)?)(?![\w./-])""",
    re.MULTILINE | re.VERBOSE,
)
#: What the tests of a recipe of conda import: a list on one line, or one of lines.
_IMPORTS = re.compile(
    r"^[ \t]*(?:-[ \t]+)?imports:[ \t]*(?P<names>\[[^\]]*\]|(?:\s*\n[ \t]*-[ \t]+[^\n]*)+)",
    re.MULTILINE,
)
_NAME = re.compile(rf"(?<![\w.]){OLD_ROOT}(?:\.\w+)*(?![\w-])")


def report_traces(document: Document, rule: str) -> Iterator[Finding]:
    """Report loops that install the library, its folder, version and module of the environment.

    Of a recipe of conda, also what its tests import.
    """
    text = document.text
    for start, stop in sorted({*_in_loops(text), *_given_on(text)}):
        what = "this names Petastorm for a command that installs what it is given"
        yield Finding(rule, "manual", start, stop, what, f"{what}: name mdstorm")
    for found in _PYTHONPATH.finditer(text):
        if not is_commented_out(text, found.start(), ANY):
            what = "a folder on PYTHONPATH has Petastorm's name: see whether it is a copy of it"
            yield Finding(rule, "note", *found.span("name"), what)
    for found in _MODULE.finditer(text):
        if document.kind in ("docker", "shell", "cluster") and not _is_shown(text, found.start()):
            what = "this loads a module of the environment that has Petastorm"
            remedy = f"{what}: install mdstorm by pip, or load a module that has it"
            yield Finding(rule, "manual", *found.span("name"), what, remedy, topic="install")
    yield from _versions(text, rule)
    is_recipe = document.path is not None and re.match(r"(?:meta|recipe)\.", document.path.name)
    if is_recipe or document.kind == "conda":
        yield from _tests_of_recipe(document, rule)


def _is_shown(text: str, position: int) -> bool:
    """Whether a command is commented out, or what another one says."""
    line = text[text.rfind("\n", 0, position) + 1 : position]
    is_said = re.search(r"\b(?:echo|printf)\b[^;&|]*\Z", line) is not None
    return is_said or is_commented_out(text, position) or is_prose(text, position)


def _in_loops(text: str) -> Iterator[tuple[int, int]]:
    """Yield what the words of a loop require whose variable an install command names."""
    commands = [_IN_FILES.sub("", text[start:stop]) for _, start, stop in install_commands(text)]
    for loop in LOOP.finditer(text):
        if any(loop["name"] in referenced(command) for command in commands):
            yield from _required(text, loop)


def _given_on(text: str) -> Iterator[tuple[int, int]]:
    for command in _XARGS.finditer(text):
        yield from _required(text, command)


def _required(text: str, match: re.Match[str]) -> Iterator[tuple[int, int]]:
    for found in find_requirements(text, *match.span("words")):
        if not is_commented_out(text, found.start, ANY):
            yield found.start, found.stop


def _versions(text: str, rule: str) -> Iterator[Finding]:
    """Report a variable of Petastorm's version that no requirement in the text has."""
    said = {
        name
        for found in find_requirements(text)
        for name in referenced(text[found.start : found.stop])
    }
    for name in dict.fromkeys(found[0] for found in _VERSION.finditer(text)):
        span = definition(text, name)
        if span is not None and name not in said and not is_commented_out(text, span[0], ANY):
            what = f"`{name}` chooses a version of Petastorm: remove it once mdstorm is required"
            yield Finding(rule, "note", *span, what)


def tested_imports(text: str) -> Iterator[re.Match[str]]:
    """Yield the lists of modules that the tests of a recipe import."""
    return _IMPORTS.finditer(text)


def _tests_of_recipe(document: Document, rule: str) -> Iterator[Finding]:
    text, needs = document.text, document.needs
    for imports in tested_imports(text):
        for found in _NAME.finditer(text, *imports.span("names")):
            if not is_commented_out(text, found.start(), ANY):
                what = "a test of this recipe imports Petastorm"
                if needs.importers and not needs.moved:
                    yield Finding(rule, "note", *found.span(), needs.why_petastorm_stays)
                    continue
                yield Finding(rule, "manual", *found.span(), what, f"{what}: name mdstorm")
