"""PM303: arguments that newer releases of libraries no longer have."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from mdstorm_migrate.base.edits import Class, Finding
from mdstorm_migrate.libraries.removed import Removed
from mdstorm_migrate.libraries.tables import KEYWORDS
from mdstorm_migrate.python.gone import Gone, grouped
from mdstorm_migrate.python.guards import is_guarded
from mdstorm_migrate.python.libraries import belongs_to_us, library_path
from mdstorm_migrate.python.module import PythonModule, last_name
from mdstorm_migrate.python.values import FRAME, class_of

CODE = "PM303"
TITLE = "Arguments that newer releases of libraries no longer have"
CLASS: Class = "manual"
KIND = "python"

_METHODS = {
    path.rpartition(".")[2]: keywords
    for path, keywords in KEYWORDS.items()
    if path.startswith(f"{FRAME}.")
}
_AXIS = Removed("pandas 2.0", "pass `axis=` by name")


def check(module: PythonModule) -> Iterable[Finding]:
    """Yield one finding for each argument and file, or for arguments that share their advice."""
    if belongs_to_us(module):
        yield from grouped(module, CODE, _gone(module))


def _gone(module: PythonModule) -> Iterator[Gone]:
    for call in module.scopes.calls:
        if _has_positional_axis(module, call):
            yield Gone(call, "drop(labels, axis)", _AXIS)
        known = _keywords(module, call)
        for keyword in call.keywords:
            removed = known.get(keyword.arg or "")
            if removed is not None and not is_guarded(module, call, is_argument=True):
                name = f"{last_name(call.func)}({keyword.arg}=)"
                yield Gone(keyword, name, removed)


def _keywords(module: PythonModule, call: ast.Call) -> dict[str, Removed]:
    """Return the arguments that what is called no longer has."""
    if not call.keywords:
        return {}
    path = library_path(module, call.func)
    if path is not None:
        return KEYWORDS.get(path, {})
    if isinstance(call.func, ast.Attribute) and call.func.attr in _METHODS:
        is_frame = class_of(module, call.func.value) == FRAME
        return _METHODS[call.func.attr] if is_frame else {}
    return {}


def _has_positional_axis(module: PythonModule, call: ast.Call) -> bool:
    """Whether it is ``frame.drop(labels, 1)``."""
    match call:
        case ast.Call(func=ast.Attribute(value=owner, attr="drop"), args=[_, ast.Constant(0 | 1)]):
            return class_of(module, owner) == FRAME
    return False
