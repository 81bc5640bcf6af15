"""What a file takes from both libraries, to compare them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import lru_cache

from mdstorm_migrate.petastorm.names import NEW_ROOT, OLD_ROOT, is_module, renamed
from mdstorm_migrate.python.by_name import lacking_of_name
from mdstorm_migrate.python.call_strings import IMPORTING, call_with_first, called
from mdstorm_migrate.python.fallbacks import is_fallback, is_fallback_import
from mdstorm_migrate.python.import_actions import action_for
from mdstorm_migrate.python.imports import imported_names, references_of
from mdstorm_migrate.python.literals import string_value
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.resolved import compares_version, is_asked_beside

#: Functions that say whether a module is there.
_ASKING = frozenset({"find_loader", "find_spec", "get_loader"})


@lru_cache(maxsize=1)
def taken_from_both(module: PythonModule) -> tuple[ast.AST, str] | None:
    """Return an import of Petastorm's whose name the file takes from mdstorm, too, and the name.

    What this tool leaves with Petastorm beside mdstorm is what mdstorm lacks, and does not count.
    Nor do fallbacks, of which one library serves. To ask whether a library is there is no use of
    it, and counts only where the same is asked of the other.
    """
    if NEW_ROOT not in module.text:
        return None
    new = set(_of_mdstorm(module))
    found = [one for one in _of_petastorm(module) if one[1] in new]
    return min(found, key=lambda one: one[1].startswith("__"), default=None)


def _of_mdstorm(module: PythonModule) -> Iterator[str]:
    for binding in module.scopes.bindings:
        target = binding.target or ""
        if target != NEW_ROOT and not target.startswith(f"{NEW_ROOT}."):
            continue
        old = OLD_ROOT + target.removeprefix(NEW_ROOT)
        if not is_module(old):
            yield _public(old)
            continue
        for reference in references_of(module, binding.name, binding.scope):
            yield _public(module.chain(reference.node, old)[1])
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Constant) and _is_imported(module, node, NEW_ROOT):
            yield _imported(module, node)


def _of_petastorm(module: PythonModule) -> Iterator[tuple[ast.AST, str]]:
    for name in imported_names(module):
        if action_for(module, name) == "keep":
            continue
        for binding in name.imports:
            target = binding.target or ""
            if is_fallback_import(module, binding):
                continue
            if not is_module(target):
                yield binding.node, _public(target)
            for use in name.all_uses:
                if is_module(target) and use.lacks is None:
                    yield binding.node, _public(use.path)
    for string in module.scopes.strings:
        if (
            _is_imported(module, string, OLD_ROOT)
            and not is_fallback(module, string)
            and not _is_left(module, string)
        ):
            yield string, _imported(module, string)


def _public(path: str) -> str:
    """Return the name of what a path of Petastorm's means, wherever it is taken from."""
    parts = path.split(".")
    for length in range(1, len(parts) + 1):
        if not is_module(".".join(parts[:length])):
            return parts[length - 1]
    return renamed(path)


def _is_left(module: PythonModule, string: ast.Constant) -> bool:
    """Whether this tool leaves a name, and may have moved what stands beside it."""
    return (
        compares_version(module, string)
        or is_asked_beside(module, string)
        or lacking_of_name(module, string, str(string.value)) is not None
    )


def _imported(module: PythonModule, string: ast.Constant) -> str:
    """Return what a string imports, as mdstorm calls it, or the question that asks for it."""
    call = call_with_first(module, string)
    path = NEW_ROOT + str(string.value).removeprefix(OLD_ROOT).removeprefix(NEW_ROOT)
    is_statement = call is not None and isinstance(module.scopes.parents.get(call), ast.Expr)
    is_asked = called(call) in _ASKING or (called(call) == "importorskip" and is_statement)
    return f'{called(call)}("{path}")' if is_asked else path


def _is_imported(module: PythonModule, string: ast.Constant, root: str) -> bool:
    """Whether a string is a module of a library that is imported, alone or from a table of both."""
    value = str(string.value)
    if value.partition(".")[0] != root or " " in value:
        return False
    if called(call_with_first(module, string)) in IMPORTING:
        return True
    table = module.scopes.parents.get(string)
    if not isinstance(table, ast.List | ast.Tuple | ast.Set):
        return False
    other = {OLD_ROOT: NEW_ROOT, NEW_ROOT: OLD_ROOT}[root] + value.removeprefix(root)
    is_of_both = any(string_value(one) == other for one in table.elts)
    is_tried = re.search(r"except\b[^\n]*(?:ImportError|ModuleNotFoundError)", module.text)
    return is_of_both and not is_tried and any(f"{name}(" in module.text for name in IMPORTING)
