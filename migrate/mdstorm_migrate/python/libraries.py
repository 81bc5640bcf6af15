"""Names that a module takes from libraries other than Petastorm, and their uses."""

from __future__ import annotations

import ast
from functools import lru_cache

from mdstorm_migrate.python.module import PythonModule, dotted
from mdstorm_migrate.python.scopes import Binding, Scope


def is_certain(module: PythonModule, binding: Binding) -> bool:
    """Whether a name means what an import binds, wherever it is bound to anything."""
    return all(
        one.target == binding.target or _is_none(module, one)
        for one in binding.scope.bindings[binding.name]
    )


def _is_none(module: PythonModule, binding: Binding) -> bool:
    """Whether a name is bound to None, as for a library that is missing."""
    match module.scopes.parents.get(binding.node):
        case ast.Assign(value=ast.Constant(None)):
            return True
    return False


def library_path(module: PythonModule, node: ast.AST) -> str | None:
    """Return the dotted path of a library's that ``a.b.c`` stands for; None if it is not one."""
    found = dotted(node)
    if found is None:
        return None
    name, attributes = found
    for binding in module.bindings(name.id, scope_of(module, name)):
        if binding.target is not None and is_certain(module, binding):
            return ".".join([binding.target, *attributes])
    return None


def scope_of(module: PythonModule, name: ast.Name) -> Scope:
    """Return the scope in which a name is read."""
    return _scopes(module).get(name, module.scopes.module)


@lru_cache(maxsize=1)
def _scopes(module: PythonModule) -> dict[ast.Name, Scope]:
    references = module.scopes.references.values()
    return {one.node: one.scope for some in references for one in some}
