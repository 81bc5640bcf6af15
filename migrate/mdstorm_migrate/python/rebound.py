"""Where a name means something else for certain than what an import has bound."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.scopes import Reference, Scope

_NESTED = (ast.AsyncFunctionDef, ast.ClassDef, ast.FunctionDef, ast.Lambda)
#: Parts that may not be evaluated, or bind elsewhere.
_UNSURE = (*_NESTED, ast.DictComp, ast.GeneratorExp, ast.IfExp, ast.ListComp, ast.SetComp)


def is_rebound(module: PythonModule, reference: Reference, scope: Scope) -> bool:
    """Whether a name is read below what has bound it again: a loop, ``with``, ``except``, ``case``.

    As `petastorm` in ``with open(path) as petastorm: petastorm.read()``.
    """
    if reference.scope is not scope or len(scope.bindings.get(reference.node.id, ())) < 2:
        return False
    child: ast.AST = reference.node
    for parent in module.ancestors(reference.node):
        if isinstance(parent, _NESTED):
            return False
        if reference.node.id in _bound(parent, child):
            return not _is_imported_below(module, parent, reference, scope)
        child = parent
    return False


def _bound(node: ast.AST, child: ast.AST) -> Iterator[str]:
    """Yield the names that a statement binds before one part of it is run."""
    match node:
        case ast.ExceptHandler(name=str(name)):
            yield name
        case ast.With(items=items, body=body) | ast.AsyncWith(items=items, body=body):
            if child in body:
                yield from _stored(*(one.optional_vars for one in items))
        case ast.For(target=target, body=body) | ast.AsyncFor(target=target, body=body):
            if child in body:
                yield from _stored(target)
        case ast.match_case(pattern=pattern, guard=guard, body=body) if child is not pattern:
            for one in ast.walk(pattern):
                if isinstance(one, ast.MatchAs | ast.MatchStar) and one.name:
                    yield one.name
                elif isinstance(one, ast.MatchMapping) and one.rest:
                    yield one.rest
            if child in body and guard is not None:
                yield from _assigned(guard)
        case ast.If(test=test, body=body) | ast.While(test=test, body=body):
            if child in body:
                yield from _assigned(test)


def _stored(*targets: ast.expr | None) -> Iterator[str]:
    for target in targets:
        for one in ast.walk(target) if target is not None else ():
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store):
                yield one.id


def _assigned(test: ast.expr) -> Iterator[str]:
    """Yield the names that ``:=`` binds whenever an expression is evaluated."""
    if isinstance(test, _UNSURE):
        return
    if isinstance(test, ast.NamedExpr):
        yield test.target.id
    parts = test.values[:1] if isinstance(test, ast.BoolOp) else ast.iter_child_nodes(test)
    for part in parts:
        if isinstance(part, ast.expr):
            yield from _assigned(part)


def _is_imported_below(
    module: PythonModule, node: ast.AST, reference: Reference, scope: Scope
) -> bool:
    """Whether an import in a statement may have bound a name of it to a module again."""
    statements = (one.statement for one in scope.bindings[reference.node.id])
    return any(one is not None and node in module.ancestors(one) for one in statements)
