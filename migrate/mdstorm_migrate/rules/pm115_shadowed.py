"""PM115: user code that hides the library, such as a ``petastorm.py`` or a copy in the tree."""

from __future__ import annotations

from collections.abc import Iterable

from mdstorm_migrate.base.edits import Finding
from mdstorm_migrate.python.imports import imported_names
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.shadow import shadowed
from mdstorm_migrate.rules.rule import rule

CODE = "PM115"


@rule(CODE, "A local file or package hides the library", "manual", "python")
def check(module: PythonModule) -> Iterable[Finding]:
    """Yield a finding for each import that may find user code; if any finds a package, only one."""
    imports = [binding for name in imported_names(module) for binding in name.imports]
    found = [(one, local) for one in imports if (local := shadowed(module, one)) is not None]
    packages = [one for one in found if one[1].kind in ("copy", "package")]
    for binding, local in packages[:1] or found:
        span = module.span(binding.node)
        if local.kind == "package":
            what = f"this imports this project's `{local.name}`, not the library"
            yield Finding(CODE, "note", *span, what, is_all=True, holds=local.name)
        elif local.kind == "copy":
            what = f"this imports the copy of Petastorm in `{local.name}`, not the library"
            remedy = f"{what}: check what the copy changes, remove it, and migrate again"
            holds = f"the copy in {local.name}"
            yield Finding(CODE, "manual", *span, what, remedy, is_all=True, holds=holds)
        elif local.kind == "part":
            what = f"this imports `{local.name}` from its own package"
            yield Finding(CODE, "note", *span, what)
        elif local.kind == "stubs":
            what = "this file belongs to stubs for Petastorm, and mdstorm has its own types"
            remedy = f"{what}: remove the stubs once nothing imports Petastorm"
            yield Finding(CODE, "manual", *span, what, remedy, holds=binding.imported_module)
        else:
            what = f"this may import the neighbouring `{local.name}` instead of the library"
            remedy = f"{what}: rename that file, or change this import by hand"
            yield Finding(CODE, "manual", *span, what, remedy, holds=binding.imported_module)
