"""Code that looks up an installed distribution by its name, for PM103."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mdstorm_migrate.petastorm import names
from mdstorm_migrate.python.calls import call_with_first, called, function_of
from mdstorm_migrate.python.links import DISTRIBUTIONS, METADATA
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.reads import reads_bound, reads_of_value

#: Functions that find an installed distribution by name.
_DISTRIBUTIONS = DISTRIBUTIONS | {"version_option"}
#: A string that is the name of a library.
_NAMED = re.compile(rf"[\"'](?:{names.OLD_ROOT}|{names.NEW_ROOT})[\"']")
#: Functions that only show a name.
_SHOWING = frozenset({"debug", "info", "print"})


def looked_up(module: PythonModule) -> Iterator[str]:
    """Yield the libraries, by either name, whose distributions the code looks up."""
    if _NAMED.search(module.text) is not None:  # the fastest test
        for string in module.scopes.nodes[ast.Constant]:
            if string.value in (names.OLD_ROOT, names.NEW_ROOT) and any(_lookups(module, string)):
                yield str(string.value)


def lookup_of(module: PythonModule, string: ast.Constant) -> ast.Call | None:
    """Return the call that looks up an installed distribution, or its version, by this name.

    The name may be an item of a list, over which a loop calls the function.
    """
    is_name = string.value == names.OLD_ROOT
    return next(_lookups(module, string), None) if is_name else None


def _lookups(module: PythonModule, string: ast.Constant) -> Iterator[ast.Call]:
    items = (item for _, items in _iterated(module, string) for item in items)
    yield from filter(None, (_call_with(module, one) for one in (string, *items)))


def _call_with(module: PythonModule, name: ast.AST) -> ast.Call | None:
    """Return the call that looks up a distribution by a name, if one does."""
    call = call_with_first(module, name)
    function = function_of(module, call)
    is_version = function == "version" and METADATA.search(module.text) is not None
    is_lookup = function in _DISTRIBUTIONS or is_version
    return call if is_lookup else None


def _iterated(
    module: PythonModule, string: ast.Constant
) -> Iterator[tuple[ast.AST, list[ast.AST]]]:
    """Yield the uses of the list with a string, and the reads of the items in each loop over it."""
    listed = module.scopes.parents.get(string)
    if isinstance(listed, ast.List | ast.Set | ast.Tuple):
        for one in (listed, *reads_of_value(module, listed)):
            loop = module.scopes.parents[one]
            found = (*reads_bound(module, loop, one),)
            yield loop, [item for item in found if loop in module.ancestors(item)]


def is_only_looked_up(module: PythonModule, string: ast.Constant) -> bool:
    """Whether the version is all that code looks up by a name, which it may also show."""
    if _call_with(module, string):
        return True
    others = (one for one in module.scopes.strings if one.value == string.value)
    if any(_is_key(module.scopes.parents.get(one)) for one in others):
        return False
    uses = [*_iterated(module, string)]
    items = [item for _, items in uses for item in items]
    is_iterated = all(items or isinstance(use, ast.Assign | ast.AnnAssign) for use, items in uses)
    return is_iterated and all(_call_with(module, one) or _is_shown(module, one) for one in items)


def _is_key(owner: ast.AST | None) -> bool:
    """Whether what has a name compares it, or looks it up."""
    is_get = isinstance(owner, ast.Call) and called(owner) == "get"
    return is_get or isinstance(owner, ast.Compare | ast.Subscript)


def _is_shown(module: PythonModule, name: ast.AST) -> bool:
    match module.scopes.parents.get(name):
        case ast.Call() as call:
            return called(call) in _SHOWING
        case ast.DictComp(key=key):
            return key is name
    return isinstance(module.scopes.parents.get(name), ast.FormattedValue | ast.Tuple)
