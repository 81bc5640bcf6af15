"""Calls in Python code that install something: of ``subprocess``, ``dbutils``, Nox, Airflow."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mdstorm_migrate.base.document import Document, SourceError
from mdstorm_migrate.packaging.commands import install_commands
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.parsing import parse_python

_NAME = re.compile(r"install\w*\Z|installPyPI\Z", re.IGNORECASE)
_ARGUMENT = re.compile(r"packages_to_install\Z|requirements\Z|\Apip\Z|\Adependencies\Z")


def install_calls(document: Document) -> Iterator[tuple[int, int]]:
    """Yield the spans of calls of a Python document that install something."""
    if "install" not in document.text and "requirements" not in document.text:
        return
    try:
        module = PythonModule(document, parse_python(document.code))
    except SourceError:
        return
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and _installs(node):
            yield module.span(node)


def _installs(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    if _NAME.search(name):
        return True
    if any(word.arg and _ARGUMENT.search(word.arg) for word in call.keywords):
        return True
    strings = [
        node.value
        for argument in call.args
        for node in ast.walk(argument)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    return "install" in strings or any(any(install_commands(one)) for one in strings)
