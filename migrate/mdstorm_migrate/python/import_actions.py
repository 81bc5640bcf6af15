"""Decide what happens to each name that a module imports from Petastorm.

A name moves only if mdstorm has everything that the module uses through it; otherwise its import
from Petastorm stays, at least for the uses that mdstorm does not support. The name ``petastorm``
itself, which ``import petastorm.spark`` binds, becomes ``mdstorm`` together with all its uses. If
that would be visible outside of the module, or a use cannot be located, the import becomes
``import mdstorm as petastorm``, which does not need any further edits.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Literal, TypeAlias

from mdstorm_migrate.petastorm import names as petastorm
from mdstorm_migrate.petastorm.absent import incidental_of
from mdstorm_migrate.python.calls import IMPORTING
from mdstorm_migrate.python.imports import ImportedName, imported_names, references_of
from mdstorm_migrate.python.links import file_imports
from mdstorm_migrate.python.module import PythonModule, last_name, string_value
from mdstorm_migrate.python.scopes import Binding, Scope
from mdstorm_migrate.python.shadow import shadowed
from mdstorm_migrate.python.textual_uses import is_named_in_strings

#: ``move``: import from mdstorm. ``keep``: import from Petastorm. ``both``: import both, because
#: only some uses move. ``alias``: import mdstorm under the old name.
Action: TypeAlias = Literal["move", "keep", "both", "alias"]


def action_for(module: PythonModule, name: ImportedName) -> Action:
    """Return the action for a name that the module imports from Petastorm."""
    return _actions(module)[name]


@lru_cache(maxsize=1)
def _actions(module: PythonModule) -> dict[ImportedName, Action]:
    return {name: _action(module, name) for name in imported_names(module)}


def moved_to(module: PythonModule, binding: Binding) -> petastorm.Counterpart | None:
    """Return mdstorm's counterpart for the object that ``from … import name`` binds, or None."""
    assert isinstance(binding.statement, ast.ImportFrom)
    assert isinstance(binding.node, ast.alias)
    old = binding.imported_module, binding.node.name
    if old in petastorm.RENAMED and module.applies("PM106", "review"):
        return petastorm.counterpart(old[0], petastorm.RENAMED[old])
    return petastorm.counterpart(*old)


def incidental_names(module: PythonModule, target: str) -> list[str]:
    """Return the used names that only the star import of `target` provides, and only by accident.

    Other files may use them, if they import all names of this one. Names that another star import
    offers as its own are excluded.

    Parameters
    ----------
    module : PythonModule
    target : str
        The module of Petastorm.
    """
    stars = {one.target or "" for one in module.scopes.module.bindings.get("*", ())} - {target}
    given = frozenset().union(*(petastorm.PUBLIC.get(one, ()) for one in stars))
    return sorted(
        name
        for name in incidental_of(target) - given
        if name in module.given.leaked
        or any(
            reference.scope.home(name) is None
            for reference in module.scopes.references.get(name, ())
        )
    )


def _action(module: PythonModule, name: ImportedName) -> Action:
    if name.is_root:
        return _action_for_root(module, name)
    return "move" if all(_can_move(module, name, one) for one in name.imports) else "keep"


def _can_move(module: PythonModule, name: ImportedName, binding: Binding) -> bool:
    """Whether mdstorm has the object that an import binds, and all of its attributes in use."""
    target = binding.target or ""
    if shadowed(module, binding) or is_fallback_import(module, binding):
        return False
    if binding.name == "*":
        return petastorm.is_module(target) and not incidental_names(module, target)
    if isinstance(binding.statement, ast.ImportFrom) and not petastorm.is_module(target):
        is_compared = target == petastorm.VERSION and any(use.first_missing for use in name.uses)
        return moved_to(module, binding) is not None and not is_compared
    return petastorm.is_module(target) and not any(use.first_missing for use in name.uses)


def _action_for_root(module: PythonModule, name: ImportedName) -> Action:
    targets = [one.imported_module for one in name.imports]
    if any(shadowed(module, one) or is_fallback_import(module, one) for one in name.imports):
        return "keep"
    missing = [use.first_missing for use in name.uses] + [text.missing for text in name.texts]
    some = None in missing
    only_imports = len(name.imports) == len(name.scope.bindings[name.name])
    named = any(isinstance(one.node, ast.alias) and one.node.asname for one in name.imports)
    plain = only_imports and not named and _can_rename(module, name)
    if any(missing) or not all(map(petastorm.is_module, targets)):
        return "both" if some and plain and not _needs_one_name(module, name) else "keep"
    return "move" if plain and not _is_exported(module, name) else "alias"


def _needs_one_name(module: PythonModule, name: ImportedName) -> bool:
    """Whether all uses must share one name, because it is deleted or code in strings may use it."""
    if any(isinstance(use.name.ctx, ast.Del) for use in name.uses):
        return True
    # Code in strings sees an enclosing function's name only if the surrounding code mentions it.
    return name.scope.parent is not None and is_named_in_strings(module)


def _can_rename(module: PythonModule, name: ImportedName) -> bool:
    """Whether the new name is free wherever the old one is used, and each use can be located."""
    if name.name in module.scopes.declared:
        return False
    references = references_of(module, name.name, name.scope)
    for scope in {name.scope, *(one.scope for one in references)}:
        if _is_ambiguous(name, scope) or _is_taken(petastorm.NEW_ROOT, scope):
            return False
    # Before Python 3.12, positions in f-strings are only estimates, and several uses may share one.
    places = {module.span(use.name) for use in name.uses}
    exact = all(module.source_of(use.name) == name.name for use in name.uses)
    return exact and len(places) == len(name.uses)


def _is_taken(name: str, scope: Scope) -> bool:
    """Whether `scope`, or a scope around it, binds the name of a module to something else."""
    bindings = (one for scope in scope.with_outer() for one in scope.bindings.get(name, ()))
    return any(binding.target != name for binding in bindings)


def _is_ambiguous(name: ImportedName, scope: Scope) -> bool:
    """Whether, in `scope`, the name may belong either to a class or to the module."""
    is_either = name.scope in (scope, scope.module)
    return is_either and scope.shadows_global(name.name)


def _is_exported(module: PythonModule, name: ImportedName) -> bool:
    """Whether other code may use the name: modules that import this module, or code in strings."""
    if is_named_in_strings(module) or _is_in_magics(module) or module.given.shares_root:
        return True
    if name.scope.parent is not None:
        return name.scope.is_class  # other code may use it as an attribute
    path = module.document.path
    if path is not None and path.name == "__init__.py":
        return True
    if any(_is_in_all(module, string) for string in module.scopes.strings):
        return True
    in_try = any(
        isinstance(parent, ast.Try) for one in name.imports for parent in module.ancestors(one.node)
    )
    is_used = name.uses or name.texts or any(one.uses for one in imported_names(module))
    return not is_used and not in_try  # an unused import may be there for other modules


def _is_in_magics(module: PythonModule) -> bool:
    """Whether a notebook magic may use the name, as in ``%time petastorm.make_reader(url)``."""
    text, code = module.document.text, module.document.code
    if text == code:
        return False
    uses = re.finditer(rf"(?<![\w./-]){petastorm.OLD_ROOT}\.[^\W\d]", text)
    return any(code[use.start() : use.end()] != use.group() for use in uses)


def _is_in_all(module: PythonModule, string: ast.Constant) -> bool:
    if string.value != petastorm.OLD_ROOT:
        return False
    statement = module.statement(string)
    targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
    return any(isinstance(one, ast.Name) and one.id == "__all__" for one in targets)


def is_fallback_import(module: PythonModule, binding: Binding) -> bool:
    """Whether an import is only a fallback for mdstorm's, in another branch or after a ``try``."""
    if is_fallback(module, binding.node, binding.name):
        return True
    start = module.span(binding.node)
    tries = _tries_of_mdstorm(module).get((binding.scope, binding.name), ())
    above = [tried for place, tried in tries if place <= start]
    return bool(above) and not set(module.ancestors(binding.node)).issuperset(above)


@lru_cache(maxsize=1)
def _tries_of_mdstorm(
    module: PythonModule,
) -> Mapping[tuple[Scope, str], Sequence[tuple[tuple[int, int], ast.Try]]]:
    """Return the ``try`` statements that import mdstorm, by the scope and the name they bind."""
    tries: dict[tuple[Scope, str], list[tuple[tuple[int, int], ast.Try]]] = {}
    for binding in module.scopes.bindings:
        if petastorm.is_mdstorm(binding.target):
            tried = _try_around(module, binding.node)
            if tried is not None:
                place = module.span(binding.node), tried
                tries.setdefault((binding.scope, binding.name), []).append(place)
    return tries


def _try_around(module: PythonModule, node: ast.AST) -> ast.Try | None:
    """Return the innermost ``try`` with handlers whose body contains a node."""
    child = node
    for parent in module.ancestors(node):
        if isinstance(parent, ast.Try) and parent.handlers and child in parent.body:
            return parent
        child = parent
    return None


@lru_cache(maxsize=1)
def has_fallback(module: PythonModule) -> bool:
    """Whether the file falls back to Petastorm where mdstorm is not installed."""
    imports = (one for one in module.scopes.bindings if petastorm.is_petastorm(one.target))
    return any(is_fallback_import(module, one) for one in imports)


def is_fallback(module: PythonModule, node: ast.AST, name: str | None = None) -> bool:
    """Whether another branch of a ``try`` or an ``if`` around an import uses mdstorm instead.

    In a ``try``, any import of mdstorm counts; in an ``if``, only one that binds the same `name`.
    """
    child = node
    for parent in module.ancestors(node):
        if isinstance(parent, ast.Try) and _imports_mdstorm(_others(parent, child)):
            return True
        if isinstance(parent, ast.If) and name is not None:
            branch = parent.orelse if child in parent.body else parent.body
            if child is not parent.test and name in _bound_to_mdstorm(branch):
                return True
        child = parent
    return False


def _others(statement: ast.Try, child: ast.AST) -> list[ast.AST]:
    """Return the statements that run instead of the branch that contains `child`."""
    if child in statement.handlers:
        rest = [one for one in statement.handlers if one is not child]
        return [*statement.body, *statement.orelse, *rest]
    return [] if child in statement.finalbody else list(statement.handlers)


def _imports_mdstorm(branches: Collection[ast.AST]) -> bool:
    return any(_bound_to_mdstorm(branches)) or any(
        isinstance(one, ast.Call)
        and last_name(one.func) in IMPORTING
        and petastorm.is_mdstorm(string_value(next(iter(one.args), None)))
        for branch in branches
        for one in ast.walk(branch)
    )


def _bound_to_mdstorm(branches: Collection[ast.AST]) -> Iterator[str]:
    """Yield the names that imports in these statements bind to parts of mdstorm."""
    for one in file_imports(node for branch in branches for node in ast.walk(branch)):
        if petastorm.is_mdstorm(one.module) and not one.level:
            yield one.bound
