"""PM123: parts of Petastorm's modules that are looked up at run time."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from mdstorm_migrate.base.edits import Class, Finding
from mdstorm_migrate.petastorm.names import is_module
from mdstorm_migrate.python.imports import Use, imported_names
from mdstorm_migrate.python.module import PythonModule

CODE = "PM123"
TITLE = "Parts of modules that are looked up at run time"
CLASS: Class = "manual"
KIND = "python"

_FUNCTIONS = frozenset({"dir", "getattr", "getmembers", "hasattr", "iter_modules", "vars"})
_PATHS = frozenset({"__file__", "__path__"})


def check(module: PythonModule) -> Iterable[Finding]:
    """Yield a finding for each use of a module that does not say which part of it is meant."""
    for name in imported_names(module):
        for use in name.uses:
            if use.missing is not None:
                continue  # PM107 says it
            owner, _, attribute = use.path.rpartition(".")
            if attribute in _PATHS and is_module(owner):
                what = f"`{use.path}` is a place of files, and mdstorm has its engine elsewhere"
                advice = "what ships or lists these files needs mdstorm_backend as well"
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
        case ast.Call(func=func, args=[first, *_]) if first is use.node:
            return ast.unparse(func).rpartition(".")[2] in _FUNCTIONS
    return False
