"""Hand-written fallbacks: imports of Petastorm for where mdstorm is not installed."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from mdstorm_migrate.petastorm.names import NEW_ROOT, is_mdstorm, is_petastorm
from mdstorm_migrate.python.calls import IMPORTING
from mdstorm_migrate.python.module import PythonModule, last_name, string_value
from mdstorm_migrate.python.scopes import Binding


def is_fallback_import(module: PythonModule, binding: Binding) -> bool:
    """Whether an import is a fallback, by its branch or since one from mdstorm was tried above."""
    if is_fallback(module, binding.node, binding.name):
        return True
    others = binding.scope.bindings.get(binding.name, ())
    return any(_is_tried_above(module, other, binding) for other in others)


def has_fallback(module: PythonModule) -> bool:
    """Whether the file imports Petastorm where mdstorm is not installed."""
    imports = (one for one in module.scopes.bindings if is_petastorm(one.target))
    return any(is_fallback_import(module, one) for one in imports)


def _is_tried_above(module: PythonModule, other: Binding, binding: Binding) -> bool:
    if not is_mdstorm(other.target) or module.span(other.node) > module.span(binding.node):
        return False
    around = set(module.ancestors(binding.node))
    child = other.node
    for parent in module.ancestors(other.node):
        if isinstance(parent, ast.Try) and parent.handlers and child in parent.body:
            return parent not in around
        child = parent
    return False


def is_fallback(module: PythonModule, node: ast.AST, name: str | None = None) -> bool:
    """Whether another branch of a ``try`` or an ``if`` around an import has mdstorm instead.

    Of a ``try``, any import of mdstorm counts; of an ``if``, one that binds the same `name`.
    """
    child = node
    for parent in module.ancestors(node):
        if isinstance(parent, ast.Try) and any(map(_imports_mdstorm, _others(parent, child))):
            return True
        if isinstance(parent, ast.If) and name is not None:
            branch = parent.orelse if child in parent.body else parent.body
            if child is not parent.test and name in _bound_to_mdstorm(branch):
                return True
        child = parent
    return False


def _others(statement: ast.Try, child: ast.AST) -> list[ast.AST]:
    """Return what runs instead of the branch that `child` belongs to."""
    if child in statement.handlers:
        rest = [one for one in statement.handlers if one is not child]
        return [*statement.body, *statement.orelse, *rest]
    return [] if child in statement.finalbody else list(statement.handlers)


def _imports_mdstorm(branch: ast.AST) -> bool:
    return any(bool(_names_of_mdstorm(node)) or _imports_by_name(node) for node in ast.walk(branch))


def _bound_to_mdstorm(branch: Sequence[ast.stmt]) -> set[str]:
    nodes = (node for statement in branch for node in ast.walk(statement))
    return {name for node in nodes for name in _names_of_mdstorm(node)}


def _names_of_mdstorm(node: ast.AST) -> Iterable[str]:
    """Return the names that an import statement binds to something of mdstorm's."""
    match node:
        case ast.Import(names=names):
            found = [one for one in names if is_mdstorm(one.name)]
            return [one.asname or NEW_ROOT for one in found]
        case ast.ImportFrom(module=str(source), names=names, level=0) if is_mdstorm(source):
            return [one.asname or one.name for one in names]
    return []


def _imports_by_name(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=called, args=[first, *_]):
            is_importing = last_name(called) in IMPORTING
            return is_importing and is_mdstorm(string_value(first))
    return False
