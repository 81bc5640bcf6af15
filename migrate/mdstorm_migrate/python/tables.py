"""Items of tables, followed to the calls of the loops over them.

``for name in NOISY: logging.getLogger(name)`` gives what is in ``NOISY`` to ``getLogger``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mdstorm_migrate.python.module import PythonModule, last_name

#: Stands among functions for the dictionary of modules, whose key an item is.
SYS_MODULES = "sys.modules"
#: As people write it; in the form of `ast.unparse`.
_SYS_MODULES = r"(?:(?:sys|(?:__import__|(?:importlib\.)?import_module)\('sys'\))\.)?modules"
_OF_SYS_MODULES = frozenset({"get", "pop", "setdefault"})
#: Methods whose first argument is a mapping, and the second a key of it: those of ``monkeypatch``.
_ITEM_SETTERS = frozenset({"delitem", "setitem"})
#: Methods of ``unittest`` whose first argument is a key, and the second a mapping.
_ASSERTIONS = frozenset({"assertIn", "assertNotIn"})
#: What gives the items of a table in the same form.
_SAME = frozenset({"frozenset", "iter", "keys", "list", "reversed", "set", "sorted", "tuple"})
#: What shows an item to people: by which name does not matter.
_SHOWING = frozenset(
    [
        "critical",
        "debug",
        "error",
        "exception",
        "exit",
        "format",
        "info",
        "log",
        "print",
        "skip",
        "warn",
        "warning",
    ]
)

#: What gives a path, or a text with it.
_TEXTS = frozenset({"abspath", "basename", "dirname", "format", "realpath", "repr", "str"})


@dataclass(frozen=True)
class ItemUses:
    """What becomes of an item of a table.

    Attributes
    ----------
    functions : frozenset of str
        The last parts of the names of the functions that get it as their first argument.
    are_all : bool
        Whether it is used in no other way, but for messages.
    """

    functions: frozenset[str]
    are_all: bool

    def are_only(self, functions: frozenset[str]) -> bool:
        """Whether nothing but some functions, and messages, sees it."""
        return self.are_all and self.functions - _SHOWING <= functions


def uses_of_item(module: PythonModule, string: ast.Constant) -> ItemUses | None:
    """Return what becomes of a string that is an item of a list, or a key of a dictionary.

    None if it is not one over which a loop goes. A table that has a name is followed if nothing
    else is bound to the name.
    """
    table = module.scopes.parents.get(string)
    if isinstance(table, ast.Dict):
        is_item = string in table.keys
    else:
        is_item = isinstance(table, ast.List | ast.Tuple | ast.Set)
    if not is_item or table is None:
        return None
    functions: set[str] = set()
    are_all = True
    for node in places_of(module, table):
        found = _of_loop(module, node)
        if found is None:
            are_all = False
        else:
            functions |= found.functions
            are_all = are_all and found.are_all
    return ItemUses(frozenset(functions), are_all) if functions else None


def places_of(module: PythonModule, table: ast.AST) -> Iterator[ast.AST]:
    """Yield the table where it is used: itself, or the name that it is given."""
    match module.scopes.parents.get(table):
        case (
            ast.Assign(targets=[ast.Name() as target]) | ast.AnnAssign(target=ast.Name() as target)
        ):
            references = module.scopes.references.get(target.id, ())
            seen = [one for one in references if one.scope.home(target.id) is not None]
            homes = {one.scope.home(target.id) for one in seen}
            if len(homes) == 1 and all(
                len(home.bindings[target.id]) == 1 for home in homes if home
            ):
                yield from (one.node for one in seen)
        case _:
            yield table


def _of_loop(module: PythonModule, node: ast.AST) -> ItemUses | None:
    """Return what a loop over a table does with the items; None if no loop goes over it."""
    takes_pairs = False
    for parent in module.ancestors(node):
        match parent:
            case ast.Attribute(attr="items"):
                takes_pairs = True
            case ast.Attribute(attr="keys") | ast.Call(func=ast.Attribute(attr="keys" | "items")):
                pass
            case ast.Call(func=ast.Name(name)) if name in _SAME:
                pass
            case ast.Call(func=ast.Name("map"), args=[function, values]) if values is node:
                return ItemUses(frozenset({last_name(function)}), True)
            case ast.For(target=target, iter=values, body=body) if values is node:
                return _of_target(module, target, takes_pairs, body)
            case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                targets = [one.target for one in parent.generators if one.iter is node]
                return _of_target(module, targets[0], takes_pairs, [parent]) if targets else None
            case _:
                return None
        node = parent
    return None


def _of_target(
    module: PythonModule, target: ast.expr, takes_pairs: bool, body: Sequence[ast.AST]
) -> ItemUses | None:
    if takes_pairs:
        if not (isinstance(target, ast.Tuple) and target.elts):
            return None
        target = target.elts[0]
    if not isinstance(target, ast.Name):
        return None
    functions: set[str] = set()
    are_all = True
    for node in (one for statement in body for one in ast.walk(statement)):
        if isinstance(node, ast.Name) and node.id == target.id and isinstance(node.ctx, ast.Load):
            parent = module.scopes.parents.get(node)
            if isinstance(parent, ast.Call) and node in parent.args[:1]:
                functions.add(last_name(parent.func))
            elif _is_of_sys_modules(module, node):
                functions.add(SYS_MODULES)
            else:
                are_all = are_all and _is_shown(module, node)
    return ItemUses(frozenset(functions), are_all)


def _is_of_sys_modules(module: PythonModule, node: ast.AST) -> bool:
    """Whether a value is a key of `sys.modules`, by itself or among others that are put there."""
    for parent in module.ancestors(node):
        match parent:
            case ast.Subscript(value=value, slice=index) if index is node:
                return is_sys_modules(value)
            case ast.Call():
                return changes_sys_modules(parent)
            case ast.Tuple() | ast.GeneratorExp() | ast.ListComp() | ast.DictComp() | ast.Dict():
                node = parent
            case _:
                return False
    return False


def changes_sys_modules(call: ast.Call) -> bool:
    """Whether it is ``sys.modules.update({…})`` or ``patch.dict("sys.modules", {…})``."""
    match call:
        case ast.Call(func=ast.Attribute(attr="update", value=value)):
            return is_sys_modules(value)
        case ast.Call(func=ast.Attribute(attr="dict"), args=[first, *_]):
            is_named = isinstance(first, ast.Constant) and first.value == "sys.modules"
            return is_named or is_sys_modules(first)
    return False


def keys_of_sys_modules(node: ast.AST) -> Sequence[ast.expr | None]:
    """Return the keys of `sys.modules` that an expression reads, writes, removes or asks for."""
    match node:
        case ast.Subscript(value=value, slice=key) if is_sys_modules(value):
            return [key]
        case ast.Compare(left=key, comparators=others) if any(map(is_sys_modules, others)):
            return [key]
        case ast.Call(func=ast.Attribute(attr=name, value=value), args=[key, *_]) if (
            name in _OF_SYS_MODULES and is_sys_modules(value)
        ):
            return [key]
        case ast.Call(func=ast.Attribute(attr=name), args=[value, key, *_]) if (
            name in _ITEM_SETTERS and is_sys_modules(value)
        ):
            return [key]
        case ast.Call(func=ast.Attribute(attr=name), args=[key, value, *_]) if (
            name in _ASSERTIONS and is_sys_modules(value)
        ):
            return [key]
        case ast.Call(args=arguments) if changes_sys_modules(node):
            return [key for one in arguments for key in _keys(one)]
    return ()


def _keys(node: ast.expr) -> Sequence[ast.expr | None]:
    match node:
        case ast.Dict(keys=keys):
            return keys
        case ast.DictComp(key=key) | ast.GeneratorExp(elt=ast.Tuple(elts=[key, *_])):
            return [key]
    return ()


def is_sys_modules(node: ast.AST) -> bool:
    """Whether it is `sys.modules`."""
    return re.fullmatch(_SYS_MODULES, ast.unparse(node)) is not None


def _is_shown(module: PythonModule, node: ast.AST) -> bool:
    """Whether a value goes into a message."""
    for parent in module.ancestors(node):
        if isinstance(parent, ast.Raise):
            return True
        if isinstance(parent, ast.Call) and last_name(parent.func) in _SHOWING:
            return True
        if isinstance(parent, ast.stmt):
            return False
    return False


def is_only_shown(module: PythonModule, node: ast.AST) -> bool:
    """Whether a value goes into a message and nowhere else, in whatever form of text."""
    for parent in module.ancestors(node):
        match parent:
            case ast.Call(func=function, args=arguments) if node in arguments:
                if last_name(function) in _SHOWING - {"format"}:
                    return True
                if last_name(function) not in _TEXTS:
                    return False
            case ast.BinOp() | ast.FormattedValue() | ast.JoinedStr() | ast.Tuple():
                pass
            case _:
                return False
        node = parent
    return False
