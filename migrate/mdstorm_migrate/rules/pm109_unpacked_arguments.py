"""PM109: calls with ``**arguments``, which cannot be checked."""

from __future__ import annotations

from collections.abc import Iterable

from mdstorm_migrate.base.edits import Class, Finding
from mdstorm_migrate.python.module import PythonModule

CODE = "PM109"
TITLE = "Arguments that are unpacked cannot be checked"
CLASS: Class = "note"
KIND = "python"


def check(module: PythonModule) -> Iterable[Finding]:
    """Yield a note for each call of Petastorm's API with ``**``."""
    for call, path in module.calls:
        for keyword in call.keywords:
            if keyword.arg is None:
                arguments = module.source_of(keyword.value)
                yield Finding(
                    CODE,
                    CLASS,
                    *module.span(call.func),
                    f"the arguments in `**{arguments}` of {path.rpartition('.')[2]}() were not "
                    "checked",
                )
