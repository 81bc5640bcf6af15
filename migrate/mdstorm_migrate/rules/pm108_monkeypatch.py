"""PM108: files that patch Petastorm, which wait for review."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from mdstorm_migrate.base.edits import Class, Finding
from mdstorm_migrate.python.imports import Use, imported_names
from mdstorm_migrate.python.module import PythonModule

CODE = "PM108"
TITLE = "Patches Petastorm: the file waits for review"
CLASS: Class = "manual"
KIND = "python"

_BECAUSE = "the patch is made for Petastorm's code"


def check(module: PythonModule) -> Iterable[Finding]:
    """Yield a finding for each assignment to an attribute of what is imported from Petastorm."""
    for name in imported_names(module):
        for use in name.all_uses:
            if _is_changed(module, use):
                what = f"`{use.path}` is replaced at run time"
                remedy = f"{what}: decide whether mdstorm needs the patch, and where"
                span = module.span(use.node)
                yield Finding(CODE, CLASS, *span, what, remedy, holds=use.path, because=_BECAUSE)


def _is_changed(module: PythonModule, use: Use) -> bool:
    """Whether an attribute of it is assigned, deleted, or set by ``setattr``."""
    if isinstance(use.node, ast.Attribute) and not isinstance(use.node.ctx, ast.Load):
        return True
    parent = module.scopes.parents.get(use.node)
    return (
        isinstance(parent, ast.Call)
        and isinstance(parent.func, ast.Name)
        and parent.func.id in ("setattr", "delattr")
        and bool(parent.args)
        and parent.args[0] is use.node
    )
