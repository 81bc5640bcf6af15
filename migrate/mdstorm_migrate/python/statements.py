"""Replacing whole statements, or taking them out."""

from __future__ import annotations

import ast
import re

from mdstorm_migrate.python.module import PythonModule

__all__ = ["body_of", "replaced_statement"]

_END_OF_LINE = re.compile(r"[ \t]*(\r\n|\r|\n|\Z)")


def body_of(module: PythonModule, statement: ast.stmt) -> list[ast.stmt]:
    """Return the statements that a statement is one of."""
    around = module.scopes.parents[statement]
    return next(
        body for _, body in ast.iter_fields(around) if isinstance(body, list) and statement in body
    )


def replaced_statement(module: PythonModule, statement: ast.stmt, new: str) -> tuple[int, int, str]:
    """Return the span that a statement takes, and what stands there instead.

    If nothing comes in its place, its line goes with it; where Python needs a statement, it becomes
    ``pass``.
    """
    start, stop = module.span(statement)
    lines = module.document.lines
    line = lines.start_of(start)
    end = _END_OF_LINE.match(module.text, stop)
    is_needed = len(body_of(module, statement)) == 1 and not isinstance(
        module.scopes.parents[statement], ast.Module
    )
    if not new and is_needed:
        new = "pass"
    if not new and end is not None and not module.text[line:start].strip():
        return line, end.end(), ""
    return start, stop, new or "pass"
