"""Modules that are imported by their names, and what is used of them."""

from __future__ import annotations

import ast

from mdstorm_migrate.petastorm.names import OLD_ROOT, missing
from mdstorm_migrate.python.call_strings import call_with_first, function_of
from mdstorm_migrate.python.imports import lacking as of_use
from mdstorm_migrate.python.literals import string_value
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.resolved import anchored


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
    if call is None or name_of_call not in ("__import__", "import_module", "importorskip"):
        return None if relative is None else missing(value)
    has_list = len(call.args) > 3 or any(one.arg == "fromlist" for one in call.keywords)
    if name_of_call == "__import__" and not has_list:
        value = OLD_ROOT  # it returns the root of what it imports
    nodes: list[ast.expr] = [call]
    match module.scopes.parents.get(call):
        case ast.Assign(targets=[ast.Name(name)]) | ast.NamedExpr(target=ast.Name(name)):
            home = module.scopes.scopes[call].home(name)
            references = module.scopes.references.get(name, ())
            nodes = [one.node for one in references if home and one.scope.may_see(name, home)]
    found = (of_use(module, *module.chain(one, value)) for one in nodes)
    return next(filter(None, (missing(value), *found)), None)
