"""PM115: what of the user's own hides the library: a ``petastorm.py``, a copy in the tree."""

from __future__ import annotations

from collections.abc import Iterable

from mdstorm_migrate.base.edits import Class, Finding
from mdstorm_migrate.python.imports import imported_names
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.scopes import Binding
from mdstorm_migrate.python.shadow import is_stub, own_part, shadowed
from mdstorm_migrate.python.vendored import copy_for, is_own_package

CODE = "PM115"
TITLE = "A file or a package of that name hides the library"
CLASS: Class = "manual"
KIND = "python"


def check(module: PythonModule) -> Iterable[Finding]:
    """Yield a finding for each import that may mean the neighbour; one if it means a copy."""
    if (copy := copy_for(module)) is not None:
        span = module.span(imported_names(module)[0].imports[0].node)
        if is_own_package(copy.path):
            what = f"this imports `{copy.name}` of this project, not the library"
            yield Finding(CODE, "note", *span, what, blocks=True, holds=copy.name)
            return
        what = f"this imports the copy of Petastorm in `{copy.name}`, not the library"
        why = f"{what}, so nothing in this file was changed"
        remedy = f"{why}: see what the copy changes, remove it, and migrate again"
        holds = f"the copy in {copy.name}"
        yield Finding(CODE, CLASS, *span, what, remedy, blocks=True, holds=holds)
        return
    for name in imported_names(module):
        for binding in name.imports:
            span = module.span(binding.node)
            if own := own_part(module, binding):
                yield Finding(CODE, "note", *span, f"this imports `{own}` of the package it is in")
            elif is_stub(module.document.path):
                yield _of_stub(module, binding)
            elif neighbour := shadowed(module, binding):
                what = f"this may import `{neighbour}` beside the file, not the library"
                remedy = f"{what}: rename that file, or change this import by hand"
                yield Finding(CODE, CLASS, *span, what, remedy, holds=binding.imported_module)


def _of_stub(module: PythonModule, binding: Binding) -> Finding:
    what = "this file belongs to stubs for Petastorm, and mdstorm has types of its own"
    remedy = f"{what}: remove the stubs once nothing imports Petastorm"
    holds = binding.imported_module
    return Finding(CODE, CLASS, *module.span(binding.node), what, remedy, holds=holds)
