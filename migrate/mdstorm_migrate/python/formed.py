"""Texts that code puts together: f-strings, ``%``, ``+`` and ``format`` with a literal in them."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping

#: What stands for a part whose value is elsewhere.
PART = "0"
_PERCENT = re.compile(r"%(?:\(\w+\))?[sd]")
_BRACES = re.compile(r"\{[\w.]*\}")


def formed_text(
    string: ast.Constant, parents: Mapping[ast.AST, ast.AST]
) -> tuple[ast.expr, str] | None:
    """Return the expression that a literal is put together in, and its text.

    Parts that are no literals are `PART` in it, behind ``==`` where a name alone stands before it.
    None if the literal stands for itself.
    """
    found = None
    node: ast.AST = string
    while (parent := parents.get(node)) is not None:
        if isinstance(parent, ast.Attribute) and parent.attr == "format":
            node = parent
            continue
        text = _text(parent) if isinstance(parent, ast.expr) else None
        if text is None or not isinstance(parent, ast.expr):
            break
        found = parent, text
        node = parent
    return found


def _text(node: ast.expr) -> str | None:
    """Return the text of an expression; None if it is none that puts texts together."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_part(value) for value in node.values)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
        return _PERCENT.sub(PART, _part(node.left)) if _is_text(node.left) else None
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        if not (_is_text(node.left) or _is_text(node.right)):
            return None
        left, right = _part(node.left), _part(node.right)
        return f"{left}=={right}" if _is_name(left) and right == PART else f"{left}{right}"
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return None
    if node.func.attr == "format" and _is_text(node.func.value):
        return _BRACES.sub(PART, _part(node.func.value))
    return None


def _is_text(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str)
    return _text(node) is not None


def _part(node: ast.expr) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return _text(node) or PART


def _is_name(text: str) -> bool:
    return re.fullmatch(r"[\w-]+(?:\[[\w,-]*\])?", text) is not None
