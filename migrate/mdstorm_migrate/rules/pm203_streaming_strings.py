"""PM203: dotted names of MosaicML Streaming in strings that are resolved at run time."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Edit, Finding
from mdstorm_migrate.mosaicml import names
from mdstorm_migrate.packaging.commands import TARGETS, dotted_values
from mdstorm_migrate.python.calls import (
    IMPORTING,
    PATCHING,
    call_with_first,
    function_of,
    is_target,
)
from mdstorm_migrate.python.module import PythonModule, inner_span
from mdstorm_migrate.rules.rule import rule

CODE = "PM203"

_PATH = re.compile(r"streaming(?:\.\w+)*")


@rule(
    CODE,
    "Module paths of MosaicML Streaming in strings name mdstorm",
    "exact",
    "python",
    "cluster",
    "conda",
)
def check(module: PythonModule | Document) -> Iterator[Edit | Finding]:
    """Yield an edit for each dotted name in a string, or a finding if mdstorm does not have it."""
    if isinstance(module, PythonModule):
        yield from _of_python(module)
        return
    for key, path, start, stop in dotted_values(module.text, names.ROOT):
        if key in TARGETS and names.is_known(path):
            yield _of_target(path, start, stop)


def _of_python(module: PythonModule) -> Iterator[Edit | Finding]:
    strings = (one for one in ast.walk(module.tree) if isinstance(one, ast.Constant))
    for string in strings:
        path, inner = str(string.value), inner_span(module, string)
        if inner is None or not _PATH.fullmatch(path) or not names.is_known(path):
            continue
        function, new = function_of(module, call_with_first(module, string)), names.mirrored(path)
        message = f'"{path}" becomes "{new}"'
        if is_target(module, string):
            yield _of_target(path, *inner)
        elif function in PATCHING | IMPORTING and not names.is_mirrored(path):
            yield _absent(path, *inner)
        elif function in PATCHING:
            message += "; check that the code under test looks it up there"
            yield Edit(CODE, "review", *inner, new, message)
        elif function in IMPORTING:
            yield Edit(CODE, "exact", *inner, new, message)


def _absent(path: str, start: int, stop: int) -> Finding:
    what, remedy = names.absent(path)
    return Finding(CODE, "manual", start, stop, what, remedy, holds=path)


def _of_target(path: str, start: int, stop: int) -> Edit | Finding:
    """Return the edit to a name that Hydra calls, or a finding if mdstorm does not have it."""
    if not names.is_mirrored(path):
        return _absent(path, start, stop)
    front, _, name = path.rpartition(".")
    is_front = front == names.ROOT and name in names.FRONT_NAMES
    new = f"{names.FRONT}.{name}" if is_front else names.mirrored(path)
    return Edit(CODE, "exact", start, stop, new, f'"{path}" becomes "{new}"')
