"""PM115: a local ``petastorm.py`` that shadows the library."""

from __future__ import annotations

from collections.abc import Iterable

from mdstorm_migrate.base.edits import Class, Finding
from mdstorm_migrate.python.imports import imported_names
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.shadow import own_part, shadowed

CODE = "PM115"
TITLE = "A neighbouring file of that name hides the library"
CLASS: Class = "manual"
KIND = "python"


def check(module: PythonModule) -> Iterable[Finding]:
    """Yield a finding for each import that may mean the neighbour."""
    for name in imported_names(module):
        for binding in name.imports:
            span = module.span(binding.node)
            if own := own_part(module, binding):
                yield Finding(CODE, "note", *span, f"this imports `{own}` of the package it is in")
            elif neighbour := shadowed(module, binding):
                what = f"this may import `{neighbour}` beside the file, not the library"
                remedy = f"{what}: rename that file, or change this import by hand"
                yield Finding(CODE, CLASS, *span, what, remedy, holds=binding.imported_module)
