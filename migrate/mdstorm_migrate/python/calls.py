"""Calls: the function that is called, and the arguments passed to it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from mdstorm_migrate.python.module import PythonModule, dotted, last_name, string_value
from mdstorm_migrate.python.scopes import Binding

#: Unqualified names of functions that import or look up the object named by their first argument.
IMPORTING = frozenset(
    [
        *("__import__", "find_loader", "find_spec", "get_loader", "import_module"),
        *("importorskip", "locate", "resolve_name", "run_module"),
    ]
)
#: The same for functions of Hydra that look up a part of a module; a module alone is not one.
_LOCATING = frozenset({"get_class", "get_method", "get_object"})
RESOLVING = IMPORTING | _LOCATING
#: The libraries that define these functions. Others with such a name may look up anything.
_IMPORTERS = frozenset({"hydra", "importlib", "pkgutil", "pydoc", "pytest", "runpy"})
#: Unqualified names of functions that replace the object at a dotted path.
PATCHING = frozenset({"delattr", "multiple", "patch", "setattr"})
#: Keywords of these functions for what they look up.
_FIRST = frozenset({"logger", "modname", "name", "package_name", "target"})
#: Methods that replace an attribute of an object.
REPLACING = frozenset({"object", "setattr", "delattr", "spy", "stub"})
#: Functions that call their first argument and pass it their other arguments.
CALLING = frozenset({"delayed", "partial", "partialmethod", "submit", "to_thread"})


def is_docstring(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a string is a whole statement, like a docstring."""
    return isinstance(module.scopes.parents.get(string), ast.Expr)


def call_with_first(module: PythonModule, string: ast.AST) -> ast.Call | None:
    """Return the call that has a string as its first argument, or as one of `_FIRST`."""
    parent = module.scopes.parents.get(string)
    if isinstance(parent, ast.keyword) and parent.arg in _FIRST:
        call = module.scopes.parents.get(parent)
        return call if isinstance(call, ast.Call) else None
    is_first = isinstance(parent, ast.Call) and parent.args[:1] == [string]
    return parent if is_first and isinstance(parent, ast.Call) else None


def is_target(module: PythonModule, string: ast.AST) -> bool:
    """Whether a string is a value of ``_target_``, which specifies the object that Hydra calls."""
    match module.scopes.parents.get(string):
        case ast.keyword(arg="_target_") | ast.AnnAssign(target=ast.Name("_target_")):
            return True
        case ast.Dict(keys=keys, values=values) if string in values:
            return string_value(keys[values.index(string)]) == "_target_"
    return False


def words_before(module: PythonModule, string: ast.AST) -> Sequence[ast.expr]:
    """Return what precedes a string in a list or call that contains the words of a command."""
    match module.scopes.parents.get(string):
        case ast.List(elts=words) | ast.Tuple(elts=words) | ast.Call(args=words):
            return words[: words.index(string)] if string in words else ()
    return ()


def called(call: ast.Call | None) -> str:
    """Return the last part of the called function's name, or an empty string if `call` is None."""
    return "" if call is None else last_name(call.func)


def function_of(module: PythonModule, call: ast.Call | None) -> str:
    """Return the name that the called function has in the module that defines it."""
    return "" if call is None else defined_name(module, call.func)


def defined_name(module: PythonModule, function: ast.expr) -> str:
    """Return the name that a function has in the module that defines it.

    This is ``import_module`` for ``im`` after ``from importlib import import_module as im``.
    """
    if isinstance(function, ast.Name):
        match module.bindings(function.id, module.scope_of(function)):
            case [Binding(node=ast.alias(name=name), statement=ast.ImportFrom())]:
                return name
    return last_name(function)


def resolved_as(
    module: PythonModule, string: ast.Constant
) -> Literal["target", "patched", "imported"] | None:
    """Return what resolves the dotted name in a string, or None if nothing is seen to.

    It is the ``target`` of Hydra, or the argument of a function that patches or imports. A package
    alone is patched only in parts, and may be anything to a function of the project.
    """
    call = call_with_first(module, string)
    function, is_root = function_of(module, call), "." not in str(string.value)
    if function in PATCHING:
        return "patched" if not is_root or function == "multiple" else None
    if is_target(module, string):
        return "target"
    if call is None or function not in (IMPORTING if is_root else RESOLVING):
        return None
    return "imported" if not is_root or _is_of_library(module, call) else None


def _is_of_library(module: PythonModule, call: ast.Call) -> bool:
    """Whether a function named as in `IMPORTING` is that of a library, as far as the file shows."""
    found = dotted(call.func)
    bindings = module.bindings(found[0].id, module.scope_of(found[0])) if found is not None else ()
    libraries = {one.imported_module.partition(".")[0] for one in bindings}
    return not libraries or not _IMPORTERS.isdisjoint(libraries)


@dataclass(frozen=True)
class GivenArguments:
    """The arguments that a call passes to a Petastorm function.

    Attributes
    ----------
    call : ast.Call
        The call of the function, or of a function that calls it, such as ``partial``.
    path : str
        The dotted path of the function.
    positional : sequence of ast.expr
        The positional arguments.
    """

    call: ast.Call
    path: str
    positional: Sequence[ast.expr]

    @property
    def function(self) -> str:
        """The last part of the path."""
        return self.path.rpartition(".")[2]


@lru_cache(maxsize=1)
def given_arguments(module: PythonModule) -> Sequence[GivenArguments]:
    """Return the arguments of all calls to Petastorm's functions, in textual order."""
    direct = dict(module.calls)
    given = []
    for call in module.scopes.calls:
        if call in direct:
            given.append(GivenArguments(call, direct[call], call.args))
        elif called(call) in CALLING and call.args:
            path = module.resolve(call.args[0], module.scopes.scopes[call])
            if path is not None:
                given.append(GivenArguments(call, path, call.args[1:]))
    return given


def keywords_of_call(module: PythonModule, call: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    """Yield the keywords of a call, each with its node.

    ``**arguments`` is followed to a literal, directly or through a name that is bound once,
    including keys that are added later and not removed.
    """
    for keyword in call.keywords:
        if keyword.arg is not None:
            yield keyword.arg, keyword
        else:
            yield from keys_of(module, call, keyword.value)


def keys_of(module: PythonModule, call: ast.Call, value: ast.expr) -> Iterator[tuple[str, ast.AST]]:
    """Yield the keys of a dictionary that a call unpacks, as far as the file shows them."""
    if isinstance(value, ast.Name):
        yield from _keys_of_name(module, call, value.id)
        return
    match value:
        case ast.Dict(keys=keys, values=values):
            for key, inner in zip(keys, values, strict=True):
                if key is None:
                    yield from keys_of(module, call, inner)
                elif (name := string_value(key)) is not None:
                    yield name, key
        case ast.Call(func=ast.Name("dict"), args=args, keywords=keywords):
            for one in args[:1]:
                yield from keys_of(module, call, one)
            for word in keywords:
                if word.arg is not None:
                    yield word.arg, word
        case ast.BinOp(op=ast.BitOr(), left=left, right=right):
            yield from keys_of(module, call, left)
            yield from keys_of(module, call, right)


def _keys_of_name(module: PythonModule, call: ast.Call, name: str) -> Iterator[tuple[str, ast.AST]]:
    scope = module.scopes.scopes[call]
    bindings = module.bindings(name, scope)
    if len(bindings) != 1 or isinstance(bindings[0].node, ast.arg):
        return
    statement = module.statement(bindings[0].node)
    if not isinstance(statement, ast.Assign | ast.AnnAssign) or statement.value is None:
        return
    home = scope.home(name)
    uses = [
        one.node for one in module.scopes.references.get(name, ()) if one.scope.home(name) is home
    ]
    removed = {key for use in uses for key in _deleted_keys(module, use)}
    found = [*keys_of(module, call, statement.value)]
    found += [one for use in uses for one in _set_keys(module, call, use)]
    yield from ((key, node) for key, node in found if key not in removed)


def _set_keys(module: PythonModule, call: ast.Call, use: ast.Name) -> Iterator[tuple[str, ast.AST]]:
    """Yield the keys that ``arguments["key"] = …``, ``update`` and ``setdefault`` add."""
    match module.scopes.parents.get(use):
        case ast.Subscript(slice=key, ctx=ast.Store()) if (name := string_value(key)) is not None:
            yield name, key
        case ast.Attribute(attr="update" | "setdefault" as method) as function:
            changing = module.scopes.parents.get(function)
            if not isinstance(changing, ast.Call) or changing is call:
                return
            if method == "update":
                yield from ((word.arg, word) for word in changing.keywords if word.arg is not None)
                for one in changing.args[:1]:
                    if isinstance(one, ast.Dict):
                        yield from keys_of(module, call, one)
            elif changing.args and (name := string_value(changing.args[0])) is not None:
                yield name, changing.args[0]


def _deleted_keys(module: PythonModule, use: ast.Name) -> Iterator[str]:
    """Yield the keys that ``del arguments["key"]`` and ``pop`` remove."""
    key: ast.AST | None = None
    match module.scopes.parents.get(use):
        case ast.Subscript(slice=index, ctx=ast.Del()):
            key = index
        case ast.Attribute(attr="pop") as function:
            taking = module.scopes.parents.get(function)
            key = taking.args[0] if isinstance(taking, ast.Call) and taking.args else None
    name = string_value(key)
    if name is not None:
        yield name


def bases_of(module: PythonModule, node: ast.ClassDef) -> set[str]:
    """Return the unqualified names of the Petastorm classes that a class derives from.

    Intermediate classes in the same file are followed by name.
    """
    classes = {one.name: one for one in module.tree.body if isinstance(one, ast.ClassDef)}
    names: set[str] = set()
    todo, seen = [node], {node}
    while todo:
        for base in todo.pop().bases:
            path = module.resolve(base, module.scopes.module) if dotted(base) else None
            if path is not None:
                names.add(path.rpartition(".")[2])
            elif isinstance(base, ast.Name) and (own := classes.get(base.id)) and own not in seen:
                seen.add(own)
                todo.append(own)
    return names


#: Maximum number of assignments through which a call is traced to the import of its library.
_LEVELS = 3


def library_of(module: PythonModule, node: ast.expr, depth: int = _LEVELS) -> str | None:
    """Return the module that a function, or the object that it is called on, comes from."""
    while not isinstance(node, ast.Name):
        match node:
            case ast.Attribute(value=inner) | ast.Subscript(value=inner) | ast.Call(func=inner):
                node = inner
            case _:
                return None
    for binding in module.bindings(node.id, module.scope_of(node)):
        if binding.imported_module:
            return binding.imported_module
        match module.scopes.parents.get(binding.node):
            case ast.Assign(value=value) if depth:
                return library_of(module, value, depth - 1)
    return None
