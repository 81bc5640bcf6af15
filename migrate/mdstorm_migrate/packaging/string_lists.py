"""Strings of code that list several requirements."""

from __future__ import annotations

import ast
import re

from mdstorm_migrate.packaging.requirement import is_requirement, is_versioned
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.required import name_of

#: A line, or a word, of several requirements in one string.
_ENTRY = re.compile(r"[A-Za-z][\w.-]*(?:\[[^\]]*\])?[ \t]*(?:[=<>~!;@].*)?")
#: A word that no list of requirements has.
_PROSE = re.compile(
    r"\b(?:an?|and|are|for|from|has|in|is|needed|needs|not|of|or|required|the|to|uses?|with)\b",
    re.IGNORECASE,
)
#: Names of what holds requirements in one string.
_PACKAGES = re.compile(
    r"PIP\w*(?:PACKAGES|REQUIREMENTS|DEPENDENCIES)|PACKAGES_PIP|REQUIREMENTS", re.IGNORECASE
)


def lists_requirements(module: PythonModule, node: ast.Constant, *, words: bool = False) -> bool:
    """Whether a string has several requirements: one a line, or one a word that is split."""
    value = str(node.value)
    parent = module.scopes.parents.get(node)
    entries = [line.strip() for line in value.splitlines() if line.strip()]
    if isinstance(parent, ast.Attribute) and parent.attr == "split" and len(entries) == 1:
        words = True
    if words and not _PROSE.search(value):
        entries = re.split(r"[\s,]+", value.strip())
    if len(entries) < 2 or not all(map(_ENTRY.fullmatch, entries)):
        return False
    return any(map(is_requirement, entries)) and not isinstance(parent, ast.Expr)


def is_list_of_packages(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a string has several requirements with blanks between them, as variables have them.

    The variable says so, such as ``EXTRA_PIP_PACKAGES``, or a version does.
    """
    name = name_of(module, string)
    if name is None or not lists_requirements(module, string, words=True):
        return False
    pinned = (one for one in str(string.value).split() if is_versioned(one))
    return _PACKAGES.search(name) is not None or any(map(is_requirement, pinned))
