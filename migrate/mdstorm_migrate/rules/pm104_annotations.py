"""PM104: string annotations and type comments."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from mdstorm_migrate.base.edits import Class, Edit
from mdstorm_migrate.petastorm.names import NEW_ROOT, renamed
from mdstorm_migrate.python.import_actions import action_for
from mdstorm_migrate.python.imports import TextualUse, annotation_uses, imported_names
from mdstorm_migrate.python.module import PythonModule

CODE = "PM104"
TITLE = "String annotations and type comments name mdstorm"
CLASS: Class = "exact"
KIND = "python"


def check(module: PythonModule) -> Iterable[Edit]:
    """Yield an edit for each use of the name ``petastorm`` in text that type checkers read.

    Types that no import reaches are included if all imports in the file move.
    """
    names = imported_names(module)
    actions = {name: action_for(module, name) for name in names}
    found: list[tuple[TextualUse, Hashable]] = []
    for name in names:
        if actions[name] in ("move", "both"):
            found += [(one, name.group) for one in name.texts]
    if names and "keep" not in actions.values():
        group = next((name.group for name in names if name.is_root), None)
        found += [(one, group) for one in annotation_uses(module, None)]
    for use, shared in found:
        if use.missing is None:
            message = f"`{use.path}` becomes `{renamed(use.path)}`"
            yield Edit(CODE, CLASS, use.start, use.stop, NEW_ROOT, message, shared)
