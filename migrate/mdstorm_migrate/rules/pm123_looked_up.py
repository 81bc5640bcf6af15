"""PM123: parts of Petastorm's modules that are looked up at run time."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from mdstorm_migrate.base.edits import Class, Finding
from mdstorm_migrate.petastorm.names import is_module, missing
from mdstorm_migrate.python.files import is_shipped
from mdstorm_migrate.python.imports import Use, imported_names
from mdstorm_migrate.python.literals import string_value
from mdstorm_migrate.python.module import PythonModule, last_name
from mdstorm_migrate.python.shadow import hiding
from mdstorm_migrate.python.tables import is_only_shown

CODE = "PM123"
TITLE = "Parts of modules that are looked up at run time"
CLASS: Class = "manual"
KIND = "python"

_FUNCTIONS = frozenset({"dir", "getattr", "getmembers", "hasattr", "iter_modules", "vars"})
_PATHS = frozenset({"__file__", "__path__"})


def check(module: PythonModule) -> Iterable[Finding]:
    """Yield a finding for each use of a module that does not say which part of it is meant."""
    for name in imported_names(module):
        for use in name.all_uses:
            if use.missing is not None or hiding(module, use.path.partition(".")[0]):
                continue  # PM107 says it, or PM115
            owner, _, attribute = use.path.rpartition(".")
            if attribute in _PATHS and is_module(owner):
                if is_only_shown(module, use.node):
                    continue
                what = f"`{use.path}` is a place of files, and mdstorm has its engine elsewhere"
                advice = "what ships or lists these files needs mdstorm_backend as well"
            elif is_module(use.path) and is_shipped(module, use.node):
                what = f"this ships `{use.path}` alone, and mdstorm has its engine elsewhere"
                advice = "ship mdstorm_backend as well"
            elif is_module(use.path) and _is_looked_into(module, use):
                what = f"which parts of `{use.path}` are used shows at run time alone"
                advice = (
                    "mdstorm has the public ones; see docs/differences.md for those that it lacks"
                )
            else:
                continue
            yield Finding(
                CODE, CLASS, *module.span(use.node), what, f"{what}: {advice}", holds=use.path
            )


def _is_looked_into(module: PythonModule, use: Use) -> bool:
    match module.scopes.parents.get(use.node):
        case ast.Call(func=func, args=[first, *rest]) if first is use.node:
            if last_name(func) not in _FUNCTIONS:
                return False
            names = _spelled(module, rest[0]) if rest else ()
            return not names or any(missing(f"{use.path}.{name}") for name in names)
    return False


def _spelled(module: PythonModule, name: ast.expr) -> Sequence[str]:
    """Return what a name may be that the file spells, by itself or in a table; empty if unknown."""
    value = string_value(name)
    if value is not None:
        return [value]
    if not (isinstance(name, ast.Subscript) and isinstance(name.value, ast.Name)):
        return ()
    tables = [
        node.value
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Assign)
        and any(isinstance(one, ast.Name) and one.id == name.value.id for one in node.targets)
    ]
    if len(tables) != 1 or not isinstance(tables[0], ast.Dict | ast.List | ast.Tuple):
        return ()
    table = tables[0]
    parts = table.values if isinstance(table, ast.Dict) else table.elts
    found = [string_value(one) for one in parts]
    return [one for one in found if one] if all(found) else ()
