"""Strings by which a function looks for a module, a distribution or files of a package."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mdstorm_migrate.petastorm.names import OLD_ROOT, missing
from mdstorm_migrate.python.call_strings import call_with_first, function_of
from mdstorm_migrate.python.literals import string_value
from mdstorm_migrate.python.module import PythonModule, dotted
from mdstorm_migrate.python.own_importers import imports_its_argument
from mdstorm_migrate.python.required import read_from_list
from mdstorm_migrate.python.tables import uses_of_item

#: Functions that look a distribution up; the last part of their own name.
TAKES_DISTRIBUTION = frozenset(
    ["distribution", "get_distribution", "get_version", "require", "requires", "version"]
)
#: What has them, in the name of a module or of a function.
_KNOWS_DISTRIBUTIONS = re.compile(r"metadata|pkg_resources|get_distribution")
#: Names of people's own functions that try an import, such as ``_module_available``.
_LOOKS_UP = re.compile(
    r"import|(?:module|package|lib|library)_?(?:is_)?(?:available|exists)|lazy", re.I
)
#: Names of those that may ask for anything, and mean a module by the name of one.
_ASKS_FOR = re.compile(r"available|installed|(?:^|_)has_|require", re.I)

#: Modules that find files of a package, and their functions that are given its name.
_OF_FILES = r"(?:importlib[._])?(?:resources|metadata)|pkg_resources|pkgutil"
_FUNCTIONS = r"(?:files|contents|get_data|(?:open|read)_(?:text|binary)|path|is_resource)"
_FINDS_FILES = re.compile(
    rf"(?:\w+\.)?resource_\w+|(?:importlib\.)?(?:{_OF_FILES})\.(?:\w+\.)?{_FUNCTIONS}"
)

#: A version, with what it is compared by.
_VERSION = re.compile(r"[<>=~! ]*\d+(?:\.\d+)+")


def looked_up(module: PythonModule, string: ast.Constant) -> str | None:
    """Return the function that looks a module or a distribution up by the string, if one does."""
    call = module.scopes.parents.get(string)
    if isinstance(call, ast.keyword):
        call = module.scopes.parents.get(call)
    if not isinstance(call, ast.Call):
        return _looked_up_by_loop(module, string) or _looked_up_by_key(module, string)
    name = function_of(module, call)
    is_asked_for = missing(str(string.value)) is None and _ASKS_FOR.search(name) is not None
    if (
        is_asked_for
        or is_resource(module, string)
        or _LOOKS_UP.search(name)
        or re.search("lazy", ast.unparse(call.func), re.IGNORECASE)
        or (name in TAKES_DISTRIBUTION and string in call.args and _is_of_metadata(module, call))
        or imports_its_argument(module, call, string)
    ):
        return f"{name}()"
    return None


def has_version_beside(module: PythonModule, string: ast.Constant) -> bool:
    """Whether the call that is given a string is given a version as well."""
    call = next((one for one in module.ancestors(string) if isinstance(one, ast.Call)), None)
    given = [] if call is None else [*call.args, *(one.value for one in call.keywords)]
    return any(_VERSION.fullmatch(string_value(one) or "") for one in given)


def _looked_up_by_loop(module: PythonModule, string: ast.Constant) -> str | None:
    """Return the function that looks up each distribution of the list that a string is in."""
    for item in read_from_list(module, string):
        call = module.scopes.parents.get(item)
        if not isinstance(call, ast.Call) or item not in call.args:
            continue
        name = function_of(module, call)
        if name in TAKES_DISTRIBUTION and _is_of_metadata(module, call):
            return f"{name}()"
    return None


def _looked_up_by_key(module: PythonModule, string: ast.Constant) -> str | None:
    """Return the function that looks up each key of the dictionary that a string is one of."""
    if not isinstance(module.scopes.parents.get(string), ast.Dict):
        return None
    items = uses_of_item(module, string)
    found = items.functions & TAKES_DISTRIBUTION if items else frozenset()
    is_known = found and _KNOWS_DISTRIBUTIONS.search(module.text)
    return f"{min(found)}()" if is_known else None


def is_distribution(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a function such as ``require`` takes a string for a distribution, not for a module.

    A function of the project's own that has such a name imports what it is given.
    """
    call = module.scopes.parents.get(string)
    is_own = isinstance(call, ast.Call) and not _is_of_metadata(module, call)
    is_module = string.value != OLD_ROOT and missing(str(string.value)) is None
    return not (is_own or is_module)


def _is_of_metadata(module: PythonModule, call: ast.Call) -> bool:
    """Whether a function such as ``version`` may be that of what knows the distributions."""
    found = dotted(call.func)
    if found is None:
        return _KNOWS_DISTRIBUTIONS.search(ast.unparse(call.func)) is not None
    bindings = module.bindings(found[0].id, module.scopes.scopes[call])
    if not bindings and not found[1]:
        return True  # a star import may have brought it
    made = (ast.unparse(module.statement(one.node)) for one in bindings if one.target is None)
    names = [*_full_names(module, call), *made]
    return any(map(_KNOWS_DISTRIBUTIONS.search, names))


def is_resource(module: PythonModule, string: ast.Constant) -> bool:
    """Whether files of a package are asked for by its name, as by ``resources.files``."""
    call = call_with_first(module, string)
    if call is None or function_of(module, call) in TAKES_DISTRIBUTION:
        return False
    return any(map(_FINDS_FILES.fullmatch, _full_names(module, call)))


def _full_names(module: PythonModule, call: ast.Call) -> Iterator[str]:
    """Yield what a call calls, as it is spelled and as the imports of the file have it."""
    found = dotted(call.func)
    if found is not None:
        name, attributes = found
        yield ".".join([name.id, *attributes])
        for binding in module.bindings(name.id, module.scopes.scopes[call]):
            yield ".".join([binding.target or "", *attributes])
