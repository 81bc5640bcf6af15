"""PM120: mocks of names of Petastorm's that mdstorm does not look up."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from mdstorm_migrate.base.edits import Class, Finding
from mdstorm_migrate.petastorm.names import is_module, missing
from mdstorm_migrate.python.by_name import modules_by_name
from mdstorm_migrate.python.imports import imported_names
from mdstorm_migrate.python.literals import string_value
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.patches import reaches_callers, replaced

CODE = "PM120"
TITLE = "A mock of what mdstorm does not look up"
CLASS: Class = "manual"
KIND = "python"


def check(module: PythonModule) -> Iterable[Finding]:
    """Yield a finding for each name of a module or a class that a mock replaces.

    ``setattr(module, …)`` itself is a patch (PM108).
    """
    for name in imported_names(module):
        for use in name.all_uses:
            if use.missing is None:  # of what is missing, PM107 speaks
                yield from _replaced(module, use.node, use.path)
    for node, path in modules_by_name(module):
        if missing(path) is None:
            yield from _replaced(module, node, path)


def _replaced(module: PythonModule, node: ast.expr, owner: str) -> Iterator[Finding]:
    """Speak of what a mock replaces of a module or a class."""
    name_of = replaced(module.scopes.parents.get(node), node)
    if name_of is None:
        return
    attribute = string_value(name_of)
    path = f"{owner}.{attribute}"
    is_private = (attribute or "_").startswith("_")
    if not reaches_callers(path) and (is_private or is_module(owner)):
        what = f"`{path}` is replaced by a mock, and mdstorm does not look it up there"
        remedy = f"{what}: replace what your own code calls instead"
        holds = path if is_private or missing(path) else None
        yield Finding(CODE, CLASS, *module.span(name_of), what, remedy, holds=holds)
