"""Whether code replaces parts of Petastorm's modules."""

from __future__ import annotations

import ast
import re

from mdstorm_migrate.petastorm.names import ENTRIES, OLD_ROOT, missing
from mdstorm_migrate.python.imports import imported_names
from mdstorm_migrate.python.module import PythonModule

_METHODS = frozenset({"object", "setattr", "delattr", "spy", "stub"})
#: What replaces parts of modules that strings name.
_BY_NAME = re.compile(r"\bpatch\b|\bmonkeypatch\b|\bmocker\b|\bsys\.modules\b|\bsetitem\b")
#: Methods of the same name in both libraries that programs call, some by making an object, or that
#: readers of both do.
_METHOD = re.compile(
    r"petastorm\.(?:pytorch\.\w*DataLoader\.__(?:enter|exit|init|iter)__|reader\.Reader\.(?:join|stop)"
    r"|predicates\.(?:in_pseudorandom_split\.do_include|in_\w+\.get_fields)"
    r"|spark(?:\.spark_dataset_converter)?\.SparkDatasetConverter"
    r"\.(?:delete|make_tf_dataset|make_torch_dataloader))"
)


def reaches_callers(path: str) -> bool:
    """Whether a mock of a name is for programs, which find it there with both libraries.

    What the package itself offers is one: Petastorm's own code takes that from its modules.
    """
    owner, _, name = path.rpartition(".")
    is_of_package = owner == OLD_ROOT and missing(path) is None
    return name in ENTRIES or is_of_package or _METHOD.fullmatch(path) is not None


def replaced(call: ast.AST | None, target: ast.expr) -> ast.expr | None:
    """Return what says which name of `target` a call replaces; None if it replaces nothing."""
    match call:
        case ast.Call(func=ast.Attribute(attr=attr), args=[first, name, *_]) if attr in _METHODS:
            return name if first is target else None
    return None


def patches(module: PythonModule) -> bool:
    """Whether a mock replaces a part of something that is imported from Petastorm."""
    return any(
        replaced(module.scopes.parents.get(use.node), use.node) is not None
        for name in imported_names(module)
        for use in name.all_uses
    )


def patches_by_name(module: PythonModule) -> bool:
    """Whether strings that name modules may do so to replace parts of them."""
    return _BY_NAME.search(module.text) is not None
