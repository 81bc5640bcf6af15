"""PM305: lengths are asked of the dataset, directories are deleted, for ``--target streaming``."""

from __future__ import annotations

from collections.abc import Iterable

from mdstorm_migrate.edits import Class, Edit, Finding
from mdstorm_migrate.module import PythonModule
from mdstorm_migrate.streaming.plan import found_by

CODE = "PM305"
TITLE = "Lengths are asked of the dataset, directories are deleted"
CLASS: Class = "review"
KIND = "python"
TARGETS = ("streaming",)


def check(module: PythonModule) -> Iterable[Edit | Finding]:
    """Yield what the plan for the module has under this code."""
    return found_by(module, CODE)
