"""What Petastorm's functions have made, followed by name: ``reader``, ``self.reader``."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from mdstorm_migrate.python.module import PythonModule, dotted

#: Methods that return the object that they are called on.
_ENTERING = frozenset({"__enter__", "enter_context"})


@lru_cache(maxsize=1)
def objects_made(module: PythonModule) -> dict[str, set[str]]:
    """Return the names under which a file keeps objects, and what made them.

    Variables are known by their name, attributes by theirs after a full stop. What made an object
    is the last part of the path of the function or class.
    """
    found: dict[str, set[str]] = {}
    for call, path in module.calls:
        made = path.rpartition(".")[2]
        for name in filter(None, _kept_as(module, call)):
            found.setdefault(name, set()).add(made)
    return found


def _kept_as(module: PythonModule, call: ast.Call) -> Iterator[str]:
    """Yield the names under which what a call makes is kept; empty ones of other targets."""
    node: ast.AST = call
    for parent in module.ancestors(call):
        match parent:
            case ast.withitem(optional_vars=ast.expr() as target):
                yield name_of(target)
                return
            case ast.Assign(targets=targets):
                yield from map(name_of, targets)
                return
            case ast.AnnAssign(target=target) | ast.NamedExpr(target=target):
                yield name_of(target)
                return
            case ast.Attribute(attr=attr) if attr in _ENTERING:
                pass
            case ast.Call(func=func) if func is node or ast.unparse(func).endswith("enter_context"):
                pass
            case ast.IfExp() | ast.BoolOp():
                pass
            case _:
                return
        node = parent


def name_of(node: ast.AST) -> str:
    """Return the name of a variable or an attribute, as `objects_made` has it; empty if neither."""
    if isinstance(node, ast.Name):
        return node.id
    return f".{node.attr}" if isinstance(node, ast.Attribute) else ""


def makers_of(module: PythonModule, node: ast.AST) -> set[str]:
    """Return what made the objects of Petastorm's that an expression is, or has in containers.

    Containers are literals, ``dict(…)``, and what variables are bound to or gets put into them.
    """
    made, paths = objects_made(module), dict(module.calls)
    found: set[str] = set()
    seen: set[str] = set()
    todo = [node]
    while todo:
        one = todo.pop()
        name = name_of(one)
        if name in made:
            found |= made[name]
            continue
        match one:
            case ast.Call() if one in paths:
                found.add(paths[one].rpartition(".")[2])
            case ast.Attribute(value=owner, attr="fields"):  # of a schema
                todo.append(owner)
            case ast.Dict(values=parts) | ast.List(elts=parts) | ast.Tuple(elts=parts):
                todo += parts
            case ast.Call(func=ast.Name("dict"), keywords=words):
                todo += [word.value for word in words]
            case ast.Name() if name not in seen:
                seen.add(name)
                todo += _put_into(module, one)
    return found


def _put_into(module: PythonModule, name: ast.Name) -> Iterator[ast.expr]:
    """Yield the values that a variable is bound to, and those that its keys are."""
    parents = module.scopes.parents
    for binding in module.bindings(name.id, module.scope_of(name)):
        match parents.get(binding.node):
            case ast.Assign(value=value) | ast.AnnAssign(value=ast.expr() as value):
                yield value
    for reference in module.scopes.references.get(name.id, ()):
        match parents.get(parent := parents[reference.node]):
            case ast.Assign(value=value) if isinstance(parent, ast.Subscript):
                yield value


def bases_of(module: PythonModule, node: ast.ClassDef) -> set[str]:
    """Return the last parts of the names of Petastorm's classes that a class is made from.

    Classes of the same file between the two are followed by name.
    """
    classes = {one.name: one for one in module.tree.body if isinstance(one, ast.ClassDef)}
    found: set[str] = set()
    todo, seen = [node], {node}
    while todo:
        for base in todo.pop().bases:
            path = module.resolve(base, module.scopes.module) if dotted(base) else None
            if path is not None:
                found.add(path.rpartition(".")[2])
            elif isinstance(base, ast.Name) and (own := classes.get(base.id)) and own not in seen:
                seen.add(own)
                todo.append(own)
    return found
