"""Calls that give objects of Petastorm's to a library which imports Petastorm itself."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mdstorm_migrate.petastorm.names import OLD_ROOT
from mdstorm_migrate.python.companions import gets_object, is_in_project
from mdstorm_migrate.python.libraries import scope_of
from mdstorm_migrate.python.literals import string_value
from mdstorm_migrate.python.module import PythonModule

#: Packages that do so, such as Hopsworks' feature store.
_PACKAGES = frozenset({"hops", "hsfs"})
#: Arguments that another library hands on to Petastorm.
_HANDED_ON = re.compile(rf"{OLD_ROOT}_(?:kw)?args")
#: An argument that says in which format something is written or read.
_FORMAT = re.compile(r"(?:\w+_)?format")
_ANY = re.compile(rf"\b{_HANDED_ON.pattern}\b|\b(?:{'|'.join(_PACKAGES)})\b|[\"']{OLD_ROOT}[\"']")
#: How many names lead from a call to the import of its library.
_DEPTH = 3


def handed_on(module: PythonModule) -> Iterator[tuple[ast.Call, str]]:
    """Yield the calls, and the packages whose they are; none of the project's own."""
    if _ANY.search(module.text) is None:
        return
    ours = {call for call, _ in module.calls}
    for call in module.scopes.calls:
        root = None if call in ours else _package_of(module, call.func)
        if root is None or (root not in _PACKAGES and not _asks_for(call)):
            continue
        if gets_object(module, call) and not is_in_project(module.document.path, root):
            yield call, root


def _asks_for(call: ast.Call) -> bool:
    """Whether an argument of a call is for Petastorm, or says that it is to be used."""
    return any(
        _HANDED_ON.fullmatch(one.arg or "")
        or (_FORMAT.fullmatch(one.arg or "") and string_value(one.value) == OLD_ROOT)
        for one in call.keywords
    )


def _package_of(module: PythonModule, node: ast.expr, depth: int = _DEPTH) -> str | None:
    """Return the package that a function, or the object whose method it is, comes from."""
    while not isinstance(node, ast.Name):
        match node:
            case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.Call(func=inner):
                node = inner
            case _:
                return None
    for binding in module.bindings(node.id, scope_of(module, node)):
        if binding.imported_module:
            return binding.imported_module.partition(".")[0]
        match module.scopes.parents.get(binding.node):
            case ast.Assign(value=value) if depth:
                return _package_of(module, value, depth - 1)
    return None
