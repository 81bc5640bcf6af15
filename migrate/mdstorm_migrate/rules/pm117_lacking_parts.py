"""PM117: parts of Petastorm's objects that mdstorm's lack, used or overridden."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from mdstorm_migrate.base.edits import Class, Finding
from mdstorm_migrate.petastorm.parts import (
    DATASET,
    FILESYSTEM,
    INSTEAD,
    LACKING,
    PIECE,
    ROW_GROUP,
    UNMISTAKABLE,
)
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.objects import bases_of, objects_made, owner_of
from mdstorm_migrate.python.taken import kind_of

CODE = "PM117"
TITLE = "Parts of objects that mdstorm's lack: the file waits for review"
CLASS: Class = "manual"
KIND = "python"

#: What is taken from objects, in words.
_TAKEN = {
    DATASET: f"`{DATASET}`",
    PIECE: "a piece of `reader.dataset`",
    ROW_GROUP: "what load_row_groups() lists",
    FILESYSTEM: "the file system",
}
_PARTS = frozenset().union(*LACKING.values())


def check(module: PythonModule) -> Iterable[Finding]:
    """Yield a finding for each such attribute, and for each method that replaces one."""
    made = objects_made(module)
    for node in module.scopes.parents:
        if isinstance(node, ast.ClassDef):
            yield from _overridden(module, node)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            if node.attr not in _PARTS:
                continue
            kinds = made.get(owner_of(node) or "", set())
            taken = None if kinds else kind_of(module, node.value)
            kinds = {taken} if taken is not None else kinds
            lacking = [kind for kind in sorted(kinds) if node.attr in LACKING.get(kind, ())]
            if lacking and len(lacking) == len(kinds):
                yield _finding(module, node, lacking[0], node.attr)
            elif node.attr in UNMISTAKABLE and not kinds:
                yield _finding(module, node, "Reader", node.attr)


def _overridden(module: PythonModule, node: ast.ClassDef) -> Iterator[Finding]:
    """Yield what a class replaces, or asks of itself, that mdstorm's class does not have."""
    for base in sorted(bases_of(module, node)):
        lacking = LACKING.get(base, frozenset()) - UNMISTAKABLE
        for one in ast.walk(node):
            if isinstance(one, ast.FunctionDef) and one.name in lacking:
                yield _finding(module, one, base, one.name)
            elif isinstance(one, ast.Attribute) and one.attr in lacking and _is_self(one.value):
                yield _finding(module, one, base, one.attr)


def _is_self(node: ast.expr) -> bool:
    return ast.unparse(node).partition("(")[0] in ("self", "super")


def _finding(module: PythonModule, node: ast.AST, kind: str, attribute: str) -> Finding:
    start, stop = module.span(node)
    if isinstance(node, ast.FunctionDef):
        start = module.text.index(attribute, start)
        stop = start + len(attribute)
    is_made = kind in LACKING and kind[0].islower() and kind not in _TAKEN
    owner = f"what {kind}() returns" if is_made else _TAKEN.get(kind, f"`{kind}`")
    what = f"{owner} has no `{attribute}` in mdstorm"
    advice = "say it with its public methods, or leave the file with Petastorm"
    remedy = f"{what}: {INSTEAD.get((kind, attribute), advice)}"
    return Finding(CODE, CLASS, start, stop, what, remedy, holds=f"{kind}.{attribute}")
