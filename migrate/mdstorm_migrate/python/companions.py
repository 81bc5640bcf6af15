"""Packages of other people that are made for Petastorm, such as ``petastorm_contrib``."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePath

from mdstorm_migrate.petastorm.names import OLD_ROOT
from mdstorm_migrate.python.libraries import scope_of
from mdstorm_migrate.python.module import PythonModule, dotted
from mdstorm_migrate.python.objects import objects_made
from mdstorm_migrate.python.vendored import SOURCES

#: What such a package, or a distribution of it, is called.
COMPANION = re.compile(rf"{OLD_ROOT}[_-][A-Za-z][\w-]*")
#: How many directories above a file are looked at for a module of the project's own.
_ABOVE = 12


def companions(module: PythonModule) -> Iterator[tuple[ast.alias, str, ast.Call | None]]:
    """Yield the first import of each such package, its name, and what it gets an object by.

    None of a module that lies on the path of the file: that is the project's own.
    """
    if COMPANION.search(module.text) is None:
        return
    seen: dict[str, ast.alias] = {}
    for binding in module.scopes.bindings:
        root = binding.imported_module.partition(".")[0]
        if isinstance(binding.node, ast.alias) and COMPANION.fullmatch(root):
            seen.setdefault(root, binding.node)
    for root, alias in seen.items():
        if not is_in_project(module.document.path, root):
            calls = (one for one in module.scopes.calls if _root_of(module, one) == root)
            yield alias, root, next((one for one in calls if gets_object(module, one)), None)


def _root_of(module: PythonModule, call: ast.Call) -> str | None:
    """Return the package that a function is imported from."""
    found = dotted(call.func)
    if found is None:
        return None
    bindings = module.bindings(found[0].id, scope_of(module, found[0]))
    return next((one.imported_module.partition(".")[0] for one in bindings), None)


def gets_object(module: PythonModule, call: ast.Call) -> bool:
    """Whether a call is given a part of Petastorm's, or what one has made."""
    made = objects_made(module)
    calls = {one for one, _ in module.calls}
    for argument in (*call.args, *(one.value for one in call.keywords)):
        for node in ast.walk(argument):
            if node in calls or (isinstance(node, ast.Name) and node.id in made):
                return True
            if isinstance(node, ast.Attribute) and f".{node.attr}" in made:
                return True
            if isinstance(node, ast.Name) and module.resolve(node, scope_of(module, node)):
                return True
    return False


def is_in_project(path: PurePath | None, name: str) -> bool:
    """Whether a module or a package lies where the code of a file may find it."""
    if path is None:
        return False
    above = Path(os.path.abspath(path)).parents[:_ABOVE]
    folders = [folder / name for folder in above for name in (".", *SOURCES)]
    return any((one / f"{name}.py").exists() or (one / name).is_dir() for one in folders)
