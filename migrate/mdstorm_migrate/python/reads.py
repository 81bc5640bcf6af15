"""Which reads of names get a value: through a variable, a collection, a parameter or a result."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from mdstorm_migrate.python.module import PythonModule, last_name
from mdstorm_migrate.python.scopes import Scope

#: Methods that add their last argument to the collection that they are called on.
ADDING = frozenset({"add", "append", "extend", "insert", "setdefault", "update"})


def reads(module: PythonModule, statement: ast.stmt) -> Iterator[ast.AST]:
    """Yield the reads of the variable, or the calls of the function, that gets a value."""
    targets = getattr(statement, "targets", [getattr(statement, "target", None)])
    if isinstance(statement, ast.Return):
        targets = [one for one in module.ancestors(statement) if isinstance(one, ast.FunctionDef)]
    match targets[:1]:
        case [ast.Name(id=name) | ast.FunctionDef(name=name) as target]:
            for read in module.scopes.references.get(name, ()):
                if any(one.node is target for one in module.bindings(name, read.scope)):
                    parent = module.scopes.parents[read.node]
                    is_called = isinstance(parent, ast.Call) and parent.func is read.node
                    yield parent if is_called else read.node


def reads_of_value(module: PythonModule, node: ast.AST) -> Iterator[ast.AST]:
    """Yield the reads of the variable that an expression is assigned to, if it is."""
    statement = module.scopes.parents.get(node)
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        yield from reads(module, statement)


def reads_bound(
    module: PythonModule, parent: ast.AST, value: ast.AST, number: int | None = None
) -> Iterator[ast.Name | ast.Attribute]:
    """Yield the reads of the names that `parent`, the parent of `value`, binds to it or its parts.

    A collection that the value is added to counts, and a parameter of a function in the file. In
    other scopes, only attributes with the same name count. Of targets that are tuples, only the
    one with the given number counts.
    """
    targets = (_target_of(target, number) for target in _targets(module, parent, value))
    bound = [one for target in targets for one in _bound_in(target)]
    if not bound:
        return
    bindings = (one for one in module.scopes.bindings if one.node in bound)
    homes: set[tuple[str, Scope | None]] = {(one.name, one.scope) for one in bindings}
    for one in bound:
        if isinstance(one, ast.Name):
            homes.add((one.id, module.scope_of(one).home(one.id)))
    attributes = {one.attr for one in bound if isinstance(one, ast.Attribute)}
    attributes |= {name for name, scope in homes if scope is not None and scope.is_class}
    for name in {name for name, _ in homes}:
        for read in module.scopes.references.get(name, ()):
            if read.node is not value and (name, read.scope.home(name)) in homes:
                yield read.node
    for node in module.scopes.nodes[ast.Attribute] if attributes else ():
        if node.attr in attributes and isinstance(node.ctx, ast.Load) and node is not value:
            yield node


def _targets(module: PythonModule, parent: ast.AST, value: ast.AST) -> Iterable[ast.AST | None]:
    """Return what `parent` binds to `value` or to parts of it."""
    match parent:
        case ast.Assign(targets=targets, value=bound) if bound is value:
            return targets
        case (
            ast.AnnAssign(target=target, value=bound)
            | ast.AugAssign(target=target, value=bound)
            | ast.NamedExpr(target=target, value=bound)
            | ast.For(target=target, iter=bound)
            | ast.AsyncFor(target=target, iter=bound)
            | ast.withitem(optional_vars=target, context_expr=bound)
        ) if bound is value:
            return [target]
        case ast.Call(func=ast.Attribute(value=target, attr=method), args=[*_, bound]) if (
            method in ADDING
        ):
            return [target] if bound is value else ()
        case ast.Call(func=function, args=args) if value in args:
            return _parameters(module, function, args.index(value))
        case ast.keyword(arg=str(name)):
            call = module.scopes.parents[parent]
            given = _parameters(module, call.func) if isinstance(call, ast.Call) else []
            return [one for one in given if one.arg == name]
        case ast.Match(subject=bound, cases=cases) if bound is value:
            return [one.pattern for one in cases]
    loops = getattr(parent, "generators", ())
    return [loop.target for loop in loops if loop.iter is value]


def _target_of(target: ast.AST | None, number: int | None) -> ast.AST | None:
    match target:
        case ast.Tuple(elts=targets) if number is not None and number < len(targets):
            return targets[number]
    return target


def _parameters(
    module: PythonModule, function: ast.expr, number: int | None = None
) -> list[ast.arg]:
    """Return the parameters, or the one with a number, of functions that a call may call."""
    name, is_method = last_name(function), isinstance(function, ast.Attribute)
    parameters: list[ast.arg] = []
    for one in module.scopes.nodes[ast.FunctionDef]:
        if one.name == name:
            plain = [*one.args.posonlyargs, *one.args.args]
            plain = plain[1:] if is_method and plain and plain[0].arg in ("self", "cls") else plain
            every = [*plain, *one.args.kwonlyargs]
            parameters += every if number is None else plain[number : number + 1]
    return parameters


def _bound_in(target: ast.AST | None) -> Iterator[ast.AST]:
    """Yield what a target, a pattern or a parameter binds: names and attributes."""
    match target:
        case ast.Name() | ast.Attribute() | ast.arg():
            yield target
        case ast.Subscript(value=inner) | ast.Starred(value=inner):
            yield from _bound_in(inner)
        case ast.Tuple(elts=inner) | ast.List(elts=inner):
            yield from (one for part in inner for one in _bound_in(part))
        case ast.pattern():
            yield from ast.walk(target)
