"""Calls: what is called, also by way of `functools.partial`, and the arguments that it gets."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from mdstorm_migrate.python.module import PythonModule, last_name, string_value

#: Functions that import what their first argument names, or look for it; the last part of the name.
IMPORTING = frozenset(
    [
        *("__import__", "find_loader", "find_spec", "get_loader", "import_module"),
        *("importorskip", "locate", "resolve_name", "run_module"),
    ]
)
#: What calls its first argument with all the others.
CALLING = frozenset({"delayed", "partial", "partialmethod", "submit", "to_thread"})


def is_docstring(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a string is a statement of its own."""
    return isinstance(module.scopes.parents.get(string), ast.Expr)


def call_with_first(module: PythonModule, string: ast.AST) -> ast.Call | None:
    """Return the call whose first argument, ``target=`` or ``name=`` a string is."""
    parent = module.scopes.parents.get(string)
    if isinstance(parent, ast.keyword) and parent.arg in ("target", "name"):
        call = module.scopes.parents.get(parent)
        return call if isinstance(call, ast.Call) else None
    is_first = isinstance(parent, ast.Call) and parent.args[:1] == [string]
    return parent if is_first and isinstance(parent, ast.Call) else None


def called(call: ast.Call | None) -> str:
    """Return the last part of the name of what is called."""
    return "" if call is None else last_name(call.func)


def function_of(module: PythonModule, call: ast.Call | None) -> str:
    """Return the name of the function that is called, as the module has it that offers it.

    So ``import_module`` for ``im(…)`` behind ``from importlib import import_module as im``.
    """
    if call is None or not isinstance(call.func, ast.Name):
        return called(call)
    bindings = module.bindings(call.func.id, module.scopes.scopes[call])
    names = {
        one.node.name
        for one in bindings
        if isinstance(one.node, ast.alias) and isinstance(one.statement, ast.ImportFrom)
    }
    return names.pop() if len(names) == len(bindings) == 1 else called(call)


@dataclass(frozen=True)
class GivenArguments:
    """Arguments that a call gives to a function of Petastorm's.

    Attributes
    ----------
    call : ast.Call
        Of the function, or of what calls it, such as ``partial``.
    path : str
        The dotted path of the function.
    positional : sequence of ast.expr
        Those by position.
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
    """Return the calls of what Petastorm offers, in the order of the text."""
    direct = dict(module.calls)
    found = []
    for call in module.scopes.calls:
        if call in direct:
            found.append(GivenArguments(call, direct[call], call.args))
        elif called(call) in CALLING and call.args:
            path = module.resolve(call.args[0], module.scopes.scopes[call])
            if path is not None:
                found.append(GivenArguments(call, path, call.args[1:]))
    return found


def keywords_of_call(module: PythonModule, call: ast.Call) -> Iterator[tuple[str, ast.AST]]:
    """Yield the keywords of a call, and where they stand.

    Of ``**arguments``, those of a literal, or of a name that is bound to one and nothing else, with
    what is put into it later and not taken out.
    """
    for keyword in call.keywords:
        if keyword.arg is not None:
            yield keyword.arg, keyword
        else:
            yield from keys_of(module, call, keyword.value)


def keys_of(module: PythonModule, call: ast.Call, value: ast.expr) -> Iterator[tuple[str, ast.AST]]:
    """Yield the keys of a dictionary that a call unpacks, as far as the file says them."""
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
    removed = {key for use in uses for key in _removed(module, use)}
    found = [*keys_of(module, call, statement.value)]
    found += [one for use in uses for one in _added(module, call, use)]
    yield from ((key, node) for key, node in found if key not in removed)


def _added(module: PythonModule, call: ast.Call, use: ast.Name) -> Iterator[tuple[str, ast.AST]]:
    """Yield what ``arguments["key"] = …``, ``update`` and ``setdefault`` put in."""
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


def _removed(module: PythonModule, use: ast.Name) -> Iterator[str]:
    """Yield what ``del arguments["key"]`` and ``pop`` take out."""
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
