"""Calls in Python code that install: of ``subprocess``, ``dbutils``, Nox, Airflow, Ray."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mdstorm_migrate.base.document import Document, SourceError
from mdstorm_migrate.packaging.commands import install_commands
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.parsing import parse_python
from mdstorm_migrate.python.required import INSTALLING, REQUIRES

#: One of these is in each text that such a call stands in.
_WORDS = re.compile(r"install|requirement|pip|pypi|package|dependenc|librar", re.IGNORECASE)


def install_calls(document: Document) -> Iterator[tuple[int, int]]:
    """Yield the spans of calls of a Python document that install something.

    So do lists in dictionaries, as in ``runtime_env = {"pip": ["torch==1.13.1"]}`` of Ray's.
    """
    if _WORDS.search(document.text) is None:
        return
    try:
        module = PythonModule(document, parse_python(document.code))
    except SourceError:
        return
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and _installs(node):
            yield module.span(node)
        elif isinstance(node, ast.Dict):
            for key, value in zip(node.keys, node.values, strict=True):
                if _is_list_of_packages(key, value):
                    yield module.span(value)


def _is_list_of_packages(key: ast.expr | None, value: ast.expr) -> bool:
    return (
        isinstance(key, ast.Constant)
        and isinstance(key.value, str)
        and REQUIRES.search(key.value) is not None
        and isinstance(value, ast.List | ast.Tuple)
    )


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
