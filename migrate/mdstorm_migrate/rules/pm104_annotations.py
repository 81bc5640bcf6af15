"""PM104: string annotations and type comments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mdstorm_migrate.base.edits import Class, Edit
from mdstorm_migrate.petastorm.names import NEW_ROOT, renamed
from mdstorm_migrate.python.import_actions import action_for
from mdstorm_migrate.python.imports import imported_names
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.textual import textual_uses

CODE = "PM104"
TITLE = "Name mdstorm in string annotations and type comments"
CLASS: Class = "exact"
KIND = "python"


def check(module: PythonModule) -> Iterable[Edit]:
    """Yield an edit for each use of the name ``petastorm`` in text that type checkers read."""
    for name in imported_names(module):
        if action_for(module, name) not in ("move", "both"):
            continue
        for use in name.texts:
            if use.missing is None and not use.is_fixed:
                message = f"`{use.path}` becomes `{renamed(use.path)}`"
                yield Edit(CODE, CLASS, use.start, use.stop, NEW_ROOT, message, name.group)
    yield from _unreached(module)


def _unreached(module: PythonModule) -> Iterator[Edit]:
    """Yield the edits of types that no import reaches, where all imports of functions move."""
    names = imported_names(module)
    if any(action_for(module, name) == "keep" for name in names):
        return
    group = next((name.group for name in names if name.is_root), None)
    for use in textual_uses(module, None) if names else ():
        if use.missing is None and (use.is_for_typing or not use.is_fixed):
            message = f"`{use.path}` becomes `{renamed(use.path)}`"
            yield Edit(CODE, CLASS, use.start, use.stop, NEW_ROOT, message, group)
