"""PM114: a reader that is returned after its ``with`` has closed it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from mdstorm_migrate.base.edits import Class, Finding
from mdstorm_migrate.python.module import PythonModule

CODE = "PM114"
TITLE = "A reader is returned after it was closed"
CLASS: Class = "manual"
KIND = "python"

_OPENED = frozenset(
    [
        "BatchedDataLoader",
        "DataLoader",
        "make_batch_reader",
        "make_reader",
        "make_tf_dataset",
        "make_torch_dataloader",
    ]
)


def check(module: PythonModule) -> Iterable[Finding]:
    """Yield a finding for each ``return`` of what the ``with`` around it closes."""
    for call, path in module.calls:
        if path.rpartition(".")[2] not in _OPENED:
            continue
        item = module.scopes.parents.get(call)
        if not isinstance(item, ast.withitem) or not isinstance(item.optional_vars, ast.Name):
            continue
        statement = module.scopes.parents[item]
        for returned in _returns(module, statement, item.optional_vars.id):
            what = "this is closed when the function returns: its `with` ends here"
            remedy = f"{what}; yield from within it, or let the caller open it"
            yield Finding(CODE, CLASS, *module.span(returned), what, remedy)


def _returns(module: PythonModule, statement: ast.AST, name: str) -> Iterator[ast.Return]:
    """Yield statements that return `name`, or a loader over it."""
    opening = {call for call, path in module.calls if path.rpartition(".")[2] in _OPENED}
    for node in ast.walk(statement):
        if not isinstance(node, ast.Return):
            continue
        value = node.value
        if isinstance(value, ast.Call) and value in opening and value.args:
            value = value.args[0]
        if isinstance(value, ast.Name) and value.id == name:
            yield node
