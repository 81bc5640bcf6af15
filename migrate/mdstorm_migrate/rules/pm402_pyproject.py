"""PM402: ``pyproject.toml``: PEP 621, dependency groups, the tables of Poetry and others."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Class, Edit, Finding
from mdstorm_migrate.packaging.commands import rewrite_runs
from mdstorm_migrate.packaging.installing import rewrite_commands
from mdstorm_migrate.packaging.poetry import rewrite_dependency, rewrite_extras
from mdstorm_migrate.packaging.pyproject import dependency_keys, requirement_strings
from mdstorm_migrate.packaging.requirement import (
    find_requirements,
    is_requirement,
)
from mdstorm_migrate.packaging.rewriting import rewrite_requirement
from mdstorm_migrate.packaging.toml_text import toml_strings
from mdstorm_migrate.rules.pm403_setup import WARNING_FILTER

CODE = "PM402"
TITLE = "pyproject.toml names mdstorm"
CLASS: Class = "exact"
KIND = "pyproject"

_CHECKERS = re.compile(r"tool\.(mypy|isort|ruff|pytest|pylint|deptry|importlinter)\b")


def check(document: Document) -> Iterator[Edit | Finding]:
    """Yield the edits of a project's file."""
    text = document.text
    for string in requirement_strings(text):
        if is_requirement(string.value):
            for found in find_requirements(text, string.start, string.stop):
                yield from rewrite_requirement(document, found, CODE, "string")
    for string in toml_strings(text):
        if string.key == "filterwarnings" and (match := WARNING_FILTER.match(string.value)):
            start = string.start + match.start("module")
            stop = string.start + match.end("module")
            yield Edit(CODE, "review", start, stop, "mdstorm", "filter the warnings of mdstorm")
        elif _CHECKERS.match(string.table) and re.match(r"petastorm\b", string.value):
            yield Finding(
                CODE,
                "note",
                string.start,
                string.stop,
                f"[{string.table}] has a setting for the package `petastorm`",
            )
    for key in dependency_keys(text):
        if key.name.lower() == "petastorm":
            yield from rewrite_dependency(document, key, CODE)
    yield from rewrite_extras(text, CODE)
    yield from rewrite_commands(document, CODE)  # of scripts that environments and runners have
    yield from rewrite_runs(text, CODE)
