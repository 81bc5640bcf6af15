"""What code takes from objects of Petastorm's: ``reader.dataset``, its pieces, a file system.

`kind_of` follows it through variables, loops, parameters of functions of the file and attributes.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from functools import lru_cache

from mdstorm_migrate.petastorm.parts import DATASET, FILESYSTEM, PIECE, ROW_GROUP
from mdstorm_migrate.python.imports import imported_names
from mdstorm_migrate.python.libraries import scope_of
from mdstorm_migrate.python.module import PythonModule, dotted
from mdstorm_migrate.python.objects import objects_made
from mdstorm_migrate.python.scopes import Binding

READERS = frozenset({"Reader", "make_batch_reader", "make_reader"})
#: Stands for a list of pieces.
_PIECES = "pieces"
#: What lists have, by what made them.
_ITEMS = {_PIECES: PIECE, "load_row_groups": ROW_GROUP}
_PAIR = "get_filesystem_and_path_or_paths"
_SAME = frozenset({"list", "reversed", "sorted", "tuple"})
#: What people call one.
_READER = re.compile(r"(?:^|_)reader$", re.IGNORECASE)
#: How long chains of assignments may be.
_DEPTH = 20


def kind_of(module: PythonModule, node: ast.expr, depth: int = _DEPTH) -> str | None:
    """Return what made an object, or from which part of one it is; None if that is not known."""
    if depth == 0:
        return None
    match node:
        case ast.Call(func=function, args=args):
            made = _makers(module).get(node)
            if made is not None:
                return made
            if isinstance(function, ast.Attribute):
                return _of_method(module, function, args, depth - 1)
            is_same = isinstance(function, ast.Name) and function.id in _SAME and len(args) > 0
            return kind_of(module, args[0], depth - 1) if is_same else None
        case ast.Attribute(value=value, attr="dataset"):
            if kind_of(module, value, depth - 1) in READERS or _is_called_reader(module, value):
                return DATASET
        case ast.Attribute(value=value, attr="pieces"):
            is_named = isinstance(value, ast.Attribute) and value.attr == "dataset"
            return _PIECES if is_named or kind_of(module, value, depth - 1) == DATASET else None
        case ast.Subscript(value=value, slice=index):
            found = kind_of(module, value, depth - 1)
            if found == _PAIR:
                return FILESYSTEM if ast.unparse(index) == "0" else None
            return found if isinstance(index, ast.Slice) else _ITEMS.get(found or "", found)
        case ast.Name(id=name):
            made_here = objects_made(module).get(name)
            if made_here is not None:
                return next(iter(made_here)) if len(made_here) == 1 else None
            bindings = module.bindings(name, scope_of(module, node))
            if any(binding.target is not None for binding in bindings):
                return _class_of(module, node)
            return _one(_of_binding(module, binding, depth - 1) for binding in bindings)
    if isinstance(node, ast.Attribute):
        if (of_petastorm := _class_of(module, node)) is not None:
            return of_petastorm
        assigned = objects_made(module).get(f".{node.attr}", set())
        values = _assigned(module).get(node.attr, ())
        return _one([*assigned, *(kind_of(module, one, depth - 1) for one in values)])
    return None


def _is_called_reader(module: PythonModule, node: ast.expr) -> bool:
    """Whether a parameter, or what it is kept as, is called a reader where Petastorm is imported.

    Such a function gets readers of other files.
    """
    match node:
        case ast.Name(id=name) if _READER.search(name) and imported_names(module):
            bindings = module.bindings(name, scope_of(module, node))
            return bool(bindings) and all(isinstance(one.node, ast.arg) for one in bindings)
        case ast.Attribute(attr=name) if _READER.search(name):
            values = _assigned(module).get(name, ())
            return bool(values) and all(_is_called_reader(module, one) for one in values)
    return False


def _of_method(
    module: PythonModule, method: ast.Attribute, args: list[ast.expr], depth: int
) -> str | None:
    """Return what a method of an object returns."""
    match method.attr:
        case "filesystem":
            owner = kind_of(module, method.value, depth)
            return FILESYSTEM if owner == "FilesystemResolver" else None
        case "__enter__":
            return kind_of(module, method.value, depth)
        case "enter_context" if args:
            return kind_of(module, args[0], depth)
    return None


def _class_of(module: PythonModule, node: ast.expr) -> str | None:
    """Return the last part of the name of a class of Petastorm's."""
    found = dotted(node)
    path = None if found is None else module.resolve(node, scope_of(module, found[0]))
    name = (path or "").rpartition(".")[2]
    return name if name[:1].isupper() else None


def _one(kinds: Iterable[str | None]) -> str | None:
    """Return what all of them are; None if they differ."""
    found = set(kinds)
    return found.pop() if len(found) == 1 else None


@lru_cache(maxsize=1)
def _makers(module: PythonModule) -> dict[ast.AST, str]:
    return {call: path.rpartition(".")[2] for call, path in module.calls}


@lru_cache(maxsize=1)
def _assigned(module: PythonModule) -> dict[str, list[ast.expr]]:
    """Return what the file assigns to attributes, by their names."""
    found: dict[str, list[ast.expr]] = {}
    for node in module.scopes.parents:
        match node:
            case ast.Assign(targets=[ast.Attribute(attr=name)], value=value):
                found.setdefault(name, []).append(value)
    return found


def _of_binding(module: PythonModule, binding: Binding, depth: int) -> str | None:
    node = binding.node
    if isinstance(node, ast.arg):
        return _of_parameter(module, binding, depth)
    child = node
    for parent in module.ancestors(node):
        match parent:
            case ast.Tuple(elts=elements):
                if child is not elements[0] and not _is_counted(module, parent):
                    return None
            case ast.Assign(value=value) | ast.NamedExpr(value=value) | ast.AnnAssign(value=value):
                found = None if value is None else kind_of(module, value, depth)
                return _unpacked(found, child)
            case ast.withitem(context_expr=opened):
                return kind_of(module, opened, depth)
            case ast.For(target=target, iter=values) if target is child:
                return _item(module, values, depth)
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                loops = [one.iter for one in parent.generators if one.target is child]
                return _item(module, loops[0], depth) if loops else None
            case _:
                return None
        child = parent
    return None


def _unpacked(found: str | None, target: ast.AST) -> str | None:
    """Return what a target gets: of a pair, its first part is the file system."""
    if isinstance(target, ast.Tuple):
        return FILESYSTEM if found == _PAIR else None
    return found


def _is_counted(module: PythonModule, pair: ast.Tuple) -> bool:
    """Whether a pair is that of ``for number, piece in enumerate(pieces)``."""
    loop = module.scopes.parents.get(pair)
    return isinstance(loop, ast.For) and ast.unparse(loop.iter).startswith("enumerate(")


def _item(module: PythonModule, values: ast.expr, depth: int) -> str | None:
    match values:
        case ast.Call(func=ast.Name("enumerate"), args=[inner, *_]):
            values = inner
    return _ITEMS.get(kind_of(module, values, depth) or "")


def _of_parameter(module: PythonModule, binding: Binding, depth: int) -> str | None:
    """Return what all calls of a function of the file give for one of its parameters."""
    function = binding.scope.node
    if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
        return None
    place = [one.arg for one in (*function.args.posonlyargs, *function.args.args)]
    given = []
    for call in module.scopes.calls:
        if isinstance(call.func, ast.Name) and call.func.id == function.name:
            named = {word.arg: word.value for word in call.keywords}
            value = dict(zip(place, call.args, strict=False)) | named
            given.append(value.get(binding.name))
    return _one(None if one is None else kind_of(module, one, depth) for one in given)
