"""Which imported names meet in a file: in one call, directly or by way of a variable."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator


def meetings(tree: ast.Module, names: Iterable[str]) -> Iterator[frozenset[str]]:
    """Yield the sets of names that meet in a call.

    Variables and attributes are told apart by their names alone, in the whole file.
    """
    reached: dict[str, set[str]] = {name: {name} for name in names}
    assigned = list(_assigned(tree))
    grows = True
    while grows:
        grows = False
        for targets, value in assigned:
            found = _found(value, reached)
            for target in targets:
                known = reached.setdefault(target, set())
                if not found <= known:
                    known |= found
                    grows = True
    for node in ast.walk(tree):
        for given, receiver in _joined(node):
            found = {one for part in given for one in _found(part, reached)}
            if found:
                found |= {one for part in receiver for one in _found(part, reached)}
            if len(found) > 1:
                yield frozenset(found)


def _joined(node: ast.AST) -> Iterator[tuple[list[ast.AST], list[ast.AST]]]:
    """Yield what is given to something, and to what."""
    match node:
        case ast.Call(func=func, args=args, keywords=keywords):
            yield [*args, *keywords], [func]
        case ast.ClassDef(bases=bases, body=body):
            values = [one for one in body if isinstance(one, ast.Assign | ast.AnnAssign)]
            yield [*values], [*bases]
            yield [*bases], []
        case ast.BinOp(left=left, right=right):
            yield [left, right], []
        case ast.Compare(left=left, comparators=comparators):
            yield [left, *comparators], []


def _assigned(tree: ast.Module) -> Iterator[tuple[list[str], ast.AST]]:
    """Yield what gets a value, and the value."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=value):
                yield _targets(targets), value
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                yield _targets([target]), value
            case (
                ast.AugAssign(target=target, value=value)
                | ast.NamedExpr(target=target, value=value)
            ):
                yield _targets([target]), value
            case ast.For(target=target, iter=value) | ast.AsyncFor(target=target, iter=value):
                yield _targets([target]), value
            case ast.withitem(context_expr=value, optional_vars=ast.expr() as target):
                yield _targets([target]), value
            case ast.comprehension(target=target, iter=value):
                yield _targets([target]), value
            case ast.FunctionDef(name=name, body=body) | ast.AsyncFunctionDef(name=name, body=body):
                for one in body:
                    yield [name], one


def _targets(nodes: Iterable[ast.expr]) -> list[str]:
    found = []
    for node in nodes:
        for one in ast.walk(node):
            if isinstance(one, ast.Name):
                found.append(one.id)
            elif isinstance(one, ast.Attribute):
                found.append(one.attr)
    return found


def _found(node: ast.AST, reached: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    for one in ast.walk(node):
        name = one.id if isinstance(one, ast.Name) else getattr(one, "attr", None)
        if isinstance(name, str):
            found |= reached.get(name, set())
    return found
