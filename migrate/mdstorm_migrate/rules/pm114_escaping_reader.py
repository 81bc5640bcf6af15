"""PM114: a reader that is returned after its ``with`` statement has closed it."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from mdstorm_migrate.base.edits import Class, Finding
from mdstorm_migrate.python.module import PythonModule

CODE = "PM114"
TITLE = "A reader is returned after it was closed"
CLASS: Class = "manual"
KIND = "python"

#: What opens a reader, or a loader over one. Loaders and datasets of mdstorm's converter are not
#: closed by a ``with`` block.
_OPENED = ("BatchedDataLoader", "DataLoader", "make_batch_reader", "make_reader")


def check(module: PythonModule) -> Iterable[Finding]:
    """Yield a finding for each ``return`` of a reader or loader that a ``with`` block closes."""
    opening = {call for call, path in module.calls if path.rpartition(".")[2] in _OPENED}
    for call in opening:
        item = module.scopes.parents.get(call)
        if not (isinstance(item, ast.withitem) and isinstance(item.optional_vars, ast.Name)):
            continue
        for node in ast.walk(module.scopes.parents[item]):
            value = node.value if isinstance(node, ast.Return) else None
            if isinstance(value, ast.Call) and value in opening and value.args:
                value = value.args[0]
            if isinstance(value, ast.Name) and value.id == item.optional_vars.id:
                what = "this is closed when the function returns it: its `with` block ends here"
                remedy = f"{what}; yield inside the block, or let the caller open it"
                yield Finding(CODE, CLASS, *module.span(node), what, remedy)
