"""Names that a module takes from libraries other than Petastorm, and their uses."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from mdstorm_migrate.libraries.tables import ROOTS, canonical
from mdstorm_migrate.petastorm.names import NEW_ROOT, OLD_ROOT
from mdstorm_migrate.python.module import PythonModule, dotted
from mdstorm_migrate.python.scopes import Binding, Scope


@dataclass(frozen=True)
class LibraryUse:
    """An import of something of a library, or a use of what was imported.

    Attributes
    ----------
    node : ast.alias or ast.expr
        The alias of an import, or a name with all its attributes.
    path : str
        The dotted path that it stands for.
    depth : int
        How many parts of the path are more than the name that was imported.
    scope : Scope
        Where it stands.
    """

    node: ast.alias | ast.expr
    path: str
    depth: int
    scope: Scope

    def part(self, length: int) -> ast.alias | ast.expr:
        """Return the node that stands for the first `length` parts of the path."""
        node = self.node
        for _ in range(min(self.path.count(".") + 1 - length, self.depth)):
            assert isinstance(node, ast.Attribute)
            node = node.value
        return node


def belongs_to_us(module: PythonModule) -> bool:
    """Whether the file uses Petastorm or mdstorm."""
    return bool(module.imported_roots & {OLD_ROOT, NEW_ROOT})


@lru_cache(maxsize=1)
def library_uses(module: PythonModule) -> Sequence[LibraryUse]:
    """Return all imports from the libraries of the tables, and all uses, in no certain order."""
    found: dict[ast.AST, LibraryUse] = {}
    for binding in module.scopes.bindings:
        if (binding.target or "").partition(".")[0] in ROOTS and binding.name != "*":
            for use in _uses(module, binding):
                found.setdefault(use.node, use)
    return list(found.values())


def _uses(module: PythonModule, binding: Binding) -> Iterator[LibraryUse]:
    alias, target = binding.node, binding.target or ""
    assert isinstance(alias, ast.alias)
    is_from = isinstance(binding.statement, ast.ImportFrom)
    yield LibraryUse(alias, canonical(target if is_from else alias.name), 0, binding.scope)
    if not is_certain(module, binding):
        return
    for reference in module.scopes.references.get(binding.name, ()):
        scope = reference.scope
        if scope.home(binding.name) is binding.scope and not scope.sees_two(binding.name):
            node, attributes = _chain(module, reference.node)
            path = canonical(".".join([target, *attributes]))
            yield LibraryUse(node, path, len(attributes), scope)


def _chain(module: PythonModule, name: ast.Name) -> tuple[ast.expr, list[str]]:
    """Return a name with all its attributes."""
    node: ast.expr = name
    attributes = []
    for parent in module.ancestors(name):
        if not isinstance(parent, ast.Attribute):
            break
        node = parent
        attributes.append(parent.attr)
    return node, attributes


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
            return canonical(".".join([binding.target, *attributes]))
    return None


def scope_of(module: PythonModule, name: ast.Name) -> Scope:
    """Return the scope in which a name is read."""
    return _scopes(module).get(name, module.scopes.module)


@lru_cache(maxsize=1)
def _scopes(module: PythonModule) -> dict[ast.Name, Scope]:
    references = module.scopes.references.values()
    return {one.node: one.scope for some in references for one in some}
