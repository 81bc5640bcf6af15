"""PM102: ``petastorm.spark.x`` becomes ``mdstorm.spark.x`` where ``import petastorm`` was moved."""

from __future__ import annotations

from collections.abc import Iterable

from mdstorm_migrate.base.edits import Class, Edit
from mdstorm_migrate.petastorm.names import NEW_ROOT, renamed
from mdstorm_migrate.python.import_actions import action_for
from mdstorm_migrate.python.imports import imported_names
from mdstorm_migrate.python.module import PythonModule

CODE = "PM102"
TITLE = "Uses of the name petastorm become mdstorm"
CLASS: Class = "exact"
KIND = "python"


def check(module: PythonModule) -> Iterable[Edit]:
    """Yield an edit for each use of the name ``petastorm`` that mdstorm supports."""
    for name in imported_names(module):
        if not name.is_root or action_for(module, name) not in ("move", "both"):
            continue
        for use in name.uses:
            if use.first_missing is None:
                start, stop = module.span(use.name)
                message = f"`{use.path}` becomes `{renamed(use.path)}`"
                yield Edit(CODE, CLASS, start, stop, NEW_ROOT, message, name.group)
