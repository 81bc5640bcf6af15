"""String literals: their values, and where their text can be edited in place."""

from __future__ import annotations

import ast
import re

from mdstorm_migrate.python.module import PythonModule

_LITERAL = re.compile(r"""[rRuU]?(?P<quotes>'''|\"""|'|")(?P<inner>.*)(?P=quotes)""", re.DOTALL)


def inner_span(module: PythonModule, string: ast.Constant) -> tuple[int, int] | None:
    """Return the span between the quotes of a string that is written as what it means.

    None for strings with escapes, in several pieces, or within an f-string.
    """
    if isinstance(module.scopes.parents.get(string), ast.JoinedStr):
        return None
    start, stop = module.span(string)
    match = _LITERAL.fullmatch(module.text, start, stop)
    if match is None or match["inner"] != string.value:
        return None
    return match.span("inner")


def string_value(node: ast.AST | None) -> str | None:
    """Return the value of a string literal; None if `node` is something else."""
    value = node.value if isinstance(node, ast.Constant) else None
    return value if isinstance(value, str) else None
