"""PM125: files that take the same from both libraries, which are left unchanged."""

from __future__ import annotations

from collections.abc import Iterable

from mdstorm_migrate.base.edits import Class, Finding
from mdstorm_migrate.python.both import taken_from_both
from mdstorm_migrate.python.module import PythonModule

CODE = "PM125"
TITLE = "Uses both libraries: the file is left unchanged"
CLASS: Class = "manual"
KIND = "python"


def check(module: PythonModule) -> Iterable[Finding]:
    """Yield a finding if the file has the same from both, as what compares them does."""
    if (found := taken_from_both(module)) is not None:
        node, name = found
        what = f"this file uses both libraries: it takes `{name}` from mdstorm as well"
        why = f"{what}, so nothing in it was changed"
        remedy = f"{why}: if it compares them, keep it; else take out one"
        holds = f"{name} of both libraries"
        yield Finding(CODE, CLASS, *module.span(node), what, remedy, blocks=True, holds=holds)
