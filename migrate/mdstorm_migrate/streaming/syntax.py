"""Shapes of code that the search for converters looks at."""

from __future__ import annotations

import ast

from mdstorm_migrate.module import PythonModule

__all__ = ["given_to", "is_len", "is_none_test", "parameters_of"]


def is_len(node: ast.AST, module: PythonModule) -> bool:
    """Whether it is a call of the builtin `len`."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
        return False
    is_builtin = module.scopes.scopes[node].home("len") is None
    return node.func.id == "len" and is_builtin and len(node.args) == 1


def is_none_test(node: ast.AST) -> bool:
    """Whether it is ``x is None`` or ``x is not None``."""
    return (
        isinstance(node, ast.Compare)
        and isinstance(node.ops[0], ast.Is | ast.IsNot)
        and isinstance(node.comparators[0], ast.Constant)
        and node.comparators[0].value is None
    )


def parameters_of(function: ast.FunctionDef) -> list[str]:
    """Return the names that a function may be given by keyword or position, but for the rest."""
    arguments = function.args
    return [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]


def given_to(call: ast.Call, function: ast.FunctionDef, parameter: str) -> ast.expr | None:
    """Return what a call gives a parameter; None if that cannot be told."""
    if any(isinstance(one, ast.Starred) for one in call.args):
        return None
    for keyword in call.keywords:
        if keyword.arg == parameter:
            return keyword.value
    positional = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    number = positional.index(parameter) if parameter in positional else len(call.args)
    return call.args[number] if number < len(call.args) else None
