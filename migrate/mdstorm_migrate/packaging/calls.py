"""Calls and lists in code that install: of ``subprocess``, ``dbutils``, Nox, Airflow, Ray."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mdstorm_migrate.base.document import Document, SourceError
from mdstorm_migrate.packaging.commands import install_commands
from mdstorm_migrate.packaging.requirement import is_requirement, is_versioned
from mdstorm_migrate.petastorm.names import OLD_ROOT
from mdstorm_migrate.python.literals import string_value
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.parsing import parse_python
from mdstorm_migrate.python.required import INSTALLING, REQUIRES

#: One of these is in each text that such a call stands in.
_WORDS = re.compile(
    rf"install|requirement|pip|pypi|package|dependenc|librar|[\"']{OLD_ROOT}[ ]?[\[=<>~!]",
    re.IGNORECASE,
)
_LISTS = (ast.List, ast.Tuple)


def install_calls(document: Document) -> Iterator[tuple[int, int]]:
    """Yield the spans of calls of a Python document that install something.

    So do lists in dictionaries, as in ``runtime_env = {"pip": ["torch==1.13.1"]}`` of Ray's, and
    those with a version of Petastorm, whatever they are given to.
    """
    if _WORDS.search(document.text) is None:
        return
    try:
        module = PythonModule(document, parse_python(document.code))
    except SourceError:
        return
    nodes = list(ast.walk(module.tree))
    given = {one.id for node in nodes for one in _names_given(node)}
    for node in nodes:
        if _is_install(node):
            yield module.span(node)
        elif isinstance(node, ast.Dict):
            yield from (module.span(one) for one in _required(node) if isinstance(one, _LISTS))
        elif isinstance(node, ast.Assign) and isinstance(node.value, _LISTS):
            names = {one.id for one in node.targets if isinstance(one, ast.Name)}
            if names & given and any(map(_names_petastorm, node.value.elts)):
                yield module.span(node.value)


def _is_install(node: ast.AST) -> bool:
    """Whether it is a call that installs, or a list with a version of Petastorm."""
    if isinstance(node, ast.Call):
        return _installs(node)
    if not isinstance(node, ast.List | ast.Tuple | ast.Set):
        return False
    return any(is_versioned(string_value(one) or "") for one in filter(_names_petastorm, node.elts))


def _names_given(node: ast.AST) -> Iterator[ast.Name]:
    """Yield the names that an installing call, or a key that says what is installed, is given."""
    values: list[ast.expr] = []
    if isinstance(node, ast.Call) and _installs(node):
        values = [*node.args, *(one.value for one in node.keywords)]
    elif isinstance(node, ast.Dict):
        values = list(_required(node))
    for value in values:
        name = value.value if isinstance(value, ast.Starred) else value
        if isinstance(name, ast.Name):
            yield name


def _required(table: ast.Dict) -> Iterator[ast.expr]:
    """Yield the values under keys that say what is installed."""
    for key, value in zip(table.keys, table.values, strict=True):
        if REQUIRES.search(string_value(key) or ""):
            yield value


def _names_petastorm(item: ast.expr) -> bool:
    """Whether an item of a list is a requirement of Petastorm."""
    return is_requirement(string_value(item) or "")


def _installs(call: ast.Call) -> bool:
    if isinstance(call.func, ast.Attribute) and INSTALLING.search(call.func.attr):
        return True
    if any(word.arg and REQUIRES.search(word.arg) for word in call.keywords):
        return True
    strings = [
        node.value
        for argument in call.args
        for node in ast.walk(argument)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return "install" in strings or any(any(install_commands(one)) for one in strings)
