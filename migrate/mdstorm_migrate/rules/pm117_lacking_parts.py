"""PM117: parts of Petastorm's objects that mdstorm's lack, used or overridden."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from mdstorm_migrate.base.edits import Class, Finding
from mdstorm_migrate.petastorm.parts import LACKING, OF_DATASET, OF_PIECE, UNMISTAKABLE
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.objects import bases_of, objects_made, owner_of

CODE = "PM117"
TITLE = "Parts of objects that mdstorm's lack: the file waits for review"
CLASS: Class = "manual"
KIND = "python"

_READERS = frozenset({"Reader", "make_batch_reader", "make_reader"})


def check(module: PythonModule) -> Iterable[Finding]:
    """Yield a finding for each such attribute, and for each method that replaces one."""
    made = objects_made(module)
    for node in module.scopes.parents:
        if isinstance(node, ast.ClassDef):
            yield from _overridden(module, node)
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            kinds = made.get(owner_of(node) or "", set())
            lacking = [kind for kind in sorted(kinds) if node.attr in LACKING.get(kind, ())]
            if lacking and len(lacking) == len(kinds):
                yield _finding(module, node, lacking[0], node.attr)
            elif node.attr in UNMISTAKABLE and not kinds:
                yield _finding(module, node, "Reader", node.attr)
            elif node.attr in OF_DATASET and _is_dataset(node.value, made):
                yield _finding(module, node, "reader.dataset", node.attr)
            elif node.attr in OF_PIECE and ".dataset.pieces" in _origin(module, node):
                yield _finding(module, node, "a piece", node.attr)


def _is_dataset(node: ast.expr, made: dict[str, set[str]]) -> bool:
    """Whether it is the `dataset` of a reader that is known by its name."""
    if not (isinstance(node, ast.Attribute) and node.attr == "dataset"):
        return False
    return any(kind in _READERS for kind in made.get(owner_of(node) or "", ()))


def _origin(module: PythonModule, node: ast.Attribute) -> str:
    """Return the text of what an attribute is asked of, or of the loop that its name is from."""
    name = node.value
    if not isinstance(name, ast.Name):
        return module.source_of(name)
    for parent in module.ancestors(node):
        loops = getattr(parent, "generators", [parent] if isinstance(parent, ast.For) else [])
        for loop in loops:
            if isinstance(loop.target, ast.Name) and loop.target.id == name.id:
                return module.source_of(loop.iter)
    return ""


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
    owner = f"what {kind}() returns" if kind in LACKING and kind[0].islower() else f"`{kind}`"
    owner = kind if " " in kind else owner
    what = f"{owner} has no `{attribute}` in mdstorm"
    remedy = f"{what}: say it with its public methods, or leave the file with Petastorm"
    return Finding(CODE, CLASS, start, stop, what, remedy, holds=f"{kind}.{attribute}")
