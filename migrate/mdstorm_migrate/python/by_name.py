"""Modules that are imported by their names, and what is used of them."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mdstorm_migrate.petastorm.names import OLD_ROOT, is_petastorm, missing
from mdstorm_migrate.python.call_strings import call_with_first, function_of
from mdstorm_migrate.python.imports import lacking as of_use
from mdstorm_migrate.python.literals import string_value
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.resolved import anchored

#: Functions that return the module that their first argument names.
_RETURNING = frozenset({"import_module", "importorskip"})


def lacking_of_name(module: PythonModule, string: ast.Constant, value: str) -> str | None:
    """Return what mdstorm does not have of all that is used of a module imported by its name."""
    call = call_with_first(module, string)
    relative = anchored(module, string)
    if relative is not None:
        call = module.scopes.parents[relative]  # type: ignore[assignment]
        name = string_value(relative)
        if name is None or not name.startswith(".") or name.startswith(".."):
            return f"{value}.*"
        value += name
    name_of_call = function_of(module, call)
    if call is None or name_of_call not in ("__import__", *_RETURNING):
        return None if relative is None else missing(value)
    has_list = len(call.args) > 3 or any(one.arg == "fromlist" for one in call.keywords)
    if name_of_call == "__import__" and not has_list:
        value = OLD_ROOT  # it returns the root of what it imports
    found = (of_use(module, *module.chain(one, value)) for one in _nodes_of(module, call))
    return next(filter(None, (missing(value), *found)), None)


def modules_by_name(module: PythonModule) -> Iterator[tuple[ast.expr, str]]:
    """Yield where a module is used that a function returns, with its attributes, and their path."""
    for string in module.scopes.strings:
        value, call = str(string.value), call_with_first(module, string)
        if call is not None and is_petastorm(value) and function_of(module, call) in _RETURNING:
            for node in _nodes_of(module, call):
                yield module.chain(node, value)


def _nodes_of(module: PythonModule, call: ast.Call) -> list[ast.expr]:
    """Return where the module is used that a call returns."""
    match module.scopes.parents.get(call):
        case ast.Assign(targets=[ast.Name(name)]) | ast.NamedExpr(target=ast.Name(name)):
            home = module.scopes.scopes[call].home(name)
            references = module.scopes.references.get(name, ())
            return [one.node for one in references if home and one.scope.may_see(name, home)]
    return [call]
