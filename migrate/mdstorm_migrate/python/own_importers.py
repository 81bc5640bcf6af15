"""Functions of the file that import what they are given by name, or look it up."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from mdstorm_migrate.python.call_strings import IMPORTING, function_of
from mdstorm_migrate.python.module import PythonModule

#: How many functions of the file may hand a name on.
_DEPTH = 3

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


def imports_its_argument(module: PythonModule, call: ast.Call, given: ast.AST) -> bool:
    """Whether a call is of a function of the file that imports what the argument `given` names."""
    return _imports(module, call, given, _DEPTH)


def _imports(module: PythonModule, call: ast.Call, given: ast.AST, depth: int) -> bool:
    if depth == 0:
        return False
    for function, is_method in _functions(module, call):
        name = _parameter(function, call, given, is_method)
        if name is not None and any(
            _is_importing(module, one, node, depth) for one, node in _given_to(function, name)
        ):
            return True
    return False


def _is_importing(module: PythonModule, call: ast.Call, node: ast.AST, depth: int) -> bool:
    firsts = [*call.args[:1], *(one.value for one in call.keywords if one.arg == "name")]
    is_first = any(one is node for one in firsts)
    if is_first and function_of(module, call) in IMPORTING:
        return True
    return _imports(module, call, node, depth - 1)


def _functions(module: PythonModule, call: ast.Call) -> Iterator[tuple[Function, bool]]:
    """Yield the functions of the file that a call may mean, and whether they are methods."""
    match call.func:
        case ast.Name(id=name):
            for binding in module.bindings(name, module.scopes.scopes[call]):
                if isinstance(binding.node, ast.FunctionDef | ast.AsyncFunctionDef):
                    yield binding.node, False
                match module.scopes.parents.get(binding.node):
                    case ast.Assign(value=ast.Lambda() as function):
                        yield function, False
        case ast.Attribute(value=ast.Name("self" | "cls"), attr=name):
            for one in _methods(module).get(name, ()):
                yield one, True


@lru_cache(maxsize=1)
def _methods(module: PythonModule) -> dict[str, list[Function]]:
    found: dict[str, list[Function]] = {}
    for node, parent in module.scopes.parents.items():
        if isinstance(node, ast.FunctionDef) and isinstance(parent, ast.ClassDef):
            found.setdefault(node.name, []).append(node)
    return found


def _parameter(function: Function, call: ast.Call, given: ast.AST, is_method: bool) -> str | None:
    """Return the name under which a function gets an argument of a call."""
    known = function.args
    for word in call.keywords:
        if word.value is given:
            return word.arg
    if given not in call.args:
        return None
    names = [one.arg for one in (*known.posonlyargs, *known.args)]
    is_static = any(
        isinstance(one, ast.Name) and one.id == "staticmethod"
        for one in getattr(function, "decorator_list", ())
    )
    place = call.args.index(given) + (is_method and not is_static)
    if place < len(names):
        return names[place]
    return known.vararg.arg if known.vararg else None


def _given_to(function: Function, name: str) -> Iterator[tuple[ast.Call, ast.AST]]:
    """Yield the calls that are given a parameter, or an item of it, and the argument."""
    names = {name}
    for node in ast.walk(function):
        if isinstance(node, ast.For | ast.comprehension):
            target, values = node.target, node.iter
            is_item = isinstance(values, ast.Name) and values.id == name
            if is_item and isinstance(target, ast.Name):
                names.add(target.id)
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            for one in (*node.args, *(word.value for word in node.keywords)):
                if isinstance(one, ast.Name) and one.id in names:
                    yield node, one
