"""Keywords of a call, those of dictionaries that it unpacks included."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mdstorm_migrate.python.literals import string_value
from mdstorm_migrate.python.module import PythonModule


def keywords_of_call(module: PythonModule, call: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    """Yield the keywords of a call, and where they stand.

    Of ``**arguments``, those of a literal, or of a name that is bound to one and nothing else.
    """
    for keyword in call.keywords:
        if keyword.arg is not None:
            yield keyword.arg, keyword
        else:
            yield from _keys(module, call, keyword.value)


def _keys(module: PythonModule, call: ast.Call, value: ast.expr) -> Iterator[tuple[str, ast.AST]]:
    if isinstance(value, ast.Name):
        bindings = module.bindings(value.id, module.scopes.scopes[call])
        if len(bindings) != 1 or isinstance(bindings[0].node, ast.arg):
            return
        statement = module.statement(bindings[0].node)
        if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
            return
        value = statement.value
    match value:
        case ast.Dict(keys=keys, values=values):
            for key, inner in zip(keys, values, strict=True):
                if key is None:
                    yield from _keys(module, call, inner)
                elif (name := string_value(key)) is not None:
                    yield name, key
        case ast.Call(func=ast.Name("dict"), keywords=keywords):
            yield from ((one.arg, one) for one in keywords if one.arg is not None)
