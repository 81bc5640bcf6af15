"""PM402: ``pyproject.toml``: PEP 621, dependency groups, the tables of Poetry and others."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Class, Edit, Finding
from mdstorm_migrate.packaging.poetry import rewrite_dependency, rewrite_extras
from mdstorm_migrate.packaging.requirement import (
    edit_requirement,
    find_requirements,
    is_requirement,
    other_origins,
)
from mdstorm_migrate.packaging.toml_text import TomlString, toml_keys, toml_strings
from mdstorm_migrate.rules.pm403_setup import WARNING_FILTER

CODE = "PM402"
TITLE = "pyproject.toml names mdstorm"
CLASS: Class = "exact"
KIND = "pyproject"

#: Tables whose strings are requirements, with the keys that hold them; None for all of them.
_REQUIREMENTS: tuple[tuple[str, str | None], ...] = (
    (r"project", "dependencies"),
    (r"project\.optional-dependencies", None),
    (r"dependency-groups", None),
    (r"build-system", "requires"),
    (r"tool\.hatch\.envs\..*", "(extra-)?dependencies"),
    (r"tool\.(pdm|uv)(\..*)?", "(dev-|override-|constraint-)?dependencies|[a-z]+"),
)
_POETRY = re.compile(
    r"tool\.(poetry\.((dev-)?dependencies|group\..+\.dependencies)|pixi\.(.+\.)?pypi-dependencies)"
)
#: The name of a group follows, not that of a package.
_INCLUDED = re.compile(r"""\binclude-group["']?[ \t]*=[ \t]*\Z""")
_CHECKERS = re.compile(r"tool\.(mypy|isort|ruff|pytest|pylint|deptry|importlinter)\b")


def check(document: Document) -> Iterator[Edit | Finding]:
    """Yield the edits of a project's file."""
    text = document.text
    for string in toml_strings(text):
        if _INCLUDED.search(text, max(string.start - 40, 0), string.start - 1):
            continue
        if _holds_requirements(string) and is_requirement(string.value):
            for found in find_requirements(text, string.start, string.stop):
                yield edit_requirement(found, CODE)
        elif string.key == "filterwarnings" and (match := WARNING_FILTER.match(string.value)):
            start = string.start + match.start("module")
            stop = string.start + match.end("module")
            yield Edit(CODE, CLASS, start, stop, "mdstorm", "filter the warnings of mdstorm")
        elif _CHECKERS.match(string.table) and re.match(r"petastorm\b", string.value):
            yield Finding(
                CODE,
                "note",
                string.start,
                string.stop,
                f"[{string.table}] has a setting for the package `petastorm`",
            )
    for key in toml_keys(text):
        if _POETRY.fullmatch(key.table) and key.name.lower() == "petastorm":
            yield from rewrite_dependency(text, key, CODE)
    yield from rewrite_extras(text, CODE)
    yield from other_origins(text, CODE)


def _holds_requirements(string: TomlString) -> bool:
    return any(
        re.fullmatch(table, string.table) and (key is None or re.fullmatch(key, string.key))
        for table, key in _REQUIREMENTS
    )
