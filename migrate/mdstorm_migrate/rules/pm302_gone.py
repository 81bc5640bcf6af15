"""PM302: names, methods and hooks that newer releases of libraries no longer have."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from mdstorm_migrate.base.edits import Class, Finding
from mdstorm_migrate.libraries.removed import Removed
from mdstorm_migrate.libraries.tables import HOOKS
from mdstorm_migrate.python.gone import Gone, gone_names, grouped
from mdstorm_migrate.python.libraries import belongs_to_us, library_path
from mdstorm_migrate.python.members import gone_members
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.rules.pm301_library_names import edit_of

CODE = "PM302"
TITLE = "Names and methods that newer releases of libraries no longer have"
CLASS: Class = "manual"
KIND = "python"

_FROM_STRING = Removed(
    "NumPy 2.3", "call `numpy.frombuffer`, and `.copy()` what is written to: it is read-only"
)


def check(module: PythonModule) -> Iterable[Finding]:
    """Yield one finding for each name and file, or for names that share their advice."""
    names = [one for one in gone_names(module) if not list(edit_of(module, one))]
    members = [
        Gone(one.node, f".{one.node.attr}", one.member.removed)
        for one in gone_members(module)
        if not one.member.removed.exact
    ]
    yield from grouped(module, CODE, [*names, *members, *_hooks(module), *_binary(module)])


def _binary(module: PythonModule) -> Iterator[Gone]:
    """Yield calls of ``numpy.fromstring`` that read bytes, not text."""
    if "fromstring" in module.text and belongs_to_us(module):
        for call in module.scopes.calls:
            is_text = len(call.args) > 3 or any(one.arg in ("sep", None) for one in call.keywords)
            if not is_text and library_path(module, call.func) == "numpy.fromstring":
                yield Gone(call.func, f"{ast.unparse(call.func)}(bytes)", _FROM_STRING)


def _hooks(module: PythonModule) -> Iterator[Gone]:
    """Yield methods of subclasses that their base no longer calls."""
    if not belongs_to_us(module) or "_epoch_end" not in module.text:
        return
    for node in ast.walk(module.tree):
        if not isinstance(node, ast.ClassDef):
            continue
        bases = [library_path(module, base) for base in node.bases]
        hooks = {name: gone for base in bases for name, gone in HOOKS.get(base or "", {}).items()}
        for method in node.body:
            if isinstance(method, ast.FunctionDef) and method.name in hooks:
                yield Gone(method, method.name, hooks[method.name])
