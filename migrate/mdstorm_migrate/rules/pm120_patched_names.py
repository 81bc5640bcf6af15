"""PM120: mocks of names of Petastorm's that mdstorm does not look up."""

from __future__ import annotations

from collections.abc import Iterable

from mdstorm_migrate.base.edits import Class, Finding
from mdstorm_migrate.petastorm.names import is_module, missing
from mdstorm_migrate.python.imports import imported_names
from mdstorm_migrate.python.module import PythonModule, string_value
from mdstorm_migrate.python.names_in_strings import reaches_callers, replaced

CODE = "PM120"
TITLE = "A mock of what mdstorm does not look up"
CLASS: Class = "manual"
KIND = "python"


def check(module: PythonModule) -> Iterable[Finding]:
    """Yield a finding for each name of a module or a class that a mock replaces.

    ``setattr(module, …)`` itself is a patch (PM108), and of what is missing, PM107 speaks.
    """
    for use in (use for name in imported_names(module) for use in name.all_uses):
        name_of = replaced(module.scopes.parents.get(use.node), use.node)
        if name_of is None or use.missing is not None:
            continue
        attribute = string_value(name_of) or "_"
        path, is_private = f"{use.path}.{attribute}", attribute.startswith("_")
        if not reaches_callers(path) and (is_private or is_module(use.path)):
            what = f"`{path}` is mocked, but mdstorm does not look it up there"
            remedy = f"{what}: mock what your own code calls instead"
            holds = path if is_private or missing(path) else None
            yield Finding(CODE, CLASS, *module.span(name_of), what, remedy, holds=holds)
