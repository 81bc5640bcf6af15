"""Strings that Python, or a function of the project's, resolves as dotted names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from mdstorm_migrate.petastorm.names import OLD_ROOT
from mdstorm_migrate.python.call_strings import (
    IMPORTING,
    before_in_list,
    call_with_first,
    function_of,
)
from mdstorm_migrate.python.literals import string_value
from mdstorm_migrate.python.module import PythonModule, dotted
from mdstorm_migrate.python.required import read_from_list
from mdstorm_migrate.python.tables import (
    SYS_MODULES,
    keys_of_sys_modules,
    uses_of_item,
)

#: Functions that replace what a dotted path names.
PATCHES = frozenset({"delattr", "multiple", "patch", "setattr"})
#: Functions whose first argument is a dotted path; the last part of their own name.
TAKES_PATH = IMPORTING | PATCHES | {"resolve_name", "run_module"}
#: What resolves the items of a table.
RESOLVING = IMPORTING | {SYS_MODULES}
#: Lists of modules that Sphinx mocks, PyInstaller ships and pytest imports.
_LISTS = frozenset({"autodoc_mock_imports", "hiddenimports", "pytest_plugins"})
#: The key under which Hydra and the like find what they call.
_TARGET = "_target_"
_DOTTED = re.compile(rf"{OLD_ROOT}(?:\.[^\W\d]\w*)*")
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
#: Names of those that may ask for anything, and mean a package by the bare name of one.
_ASKS_FOR = re.compile(r"available|installed|(?:^|_)has_|require", re.I)

#: Modules that find files of a package, and their functions that are given its name.
_OF_FILES = r"(?:importlib[._])?(?:resources|metadata)|pkg_resources|pkgutil"
_FUNCTIONS = r"(?:files|contents|get_data|(?:open|read)_(?:text|binary)|path|is_resource)"
_FINDS_FILES = re.compile(
    rf"(?:\w+\.)?resource_\w+|(?:importlib\.)?(?:{_OF_FILES})\.(?:\w+\.)?{_FUNCTIONS}"
)


def is_path(module: PythonModule, string: ast.Constant) -> bool:
    """Whether Python, or Hydra, takes a string for the path of a module or of a part of one."""
    call = call_with_first(module, string)
    if (
        function_of(module, call) in TAKES_PATH
        or finds_spec(module, call)
        or anchored(module, string) is not None
    ):
        return True
    items = uses_of_item(module, string)
    if items is not None and items.functions & RESOLVING:
        return True
    if _is_target(module, string) or _is_listed(module, string):
        return True
    parent = module.scopes.parents.get(string)
    if isinstance(parent, ast.Dict):
        parent = module.scopes.parents.get(parent)
    if parent is not None and string in keys_of_sys_modules(parent):
        return True
    return before_in_list(module, string) == "-m"


def finds_spec(module: PythonModule, call: ast.Call | None) -> bool:
    """Whether a call is of a function of the file that gives its argument to `find_spec` alone.

    Or that imports it and keeps nothing of it, to see whether that succeeds.
    """
    if call is None or not isinstance(call.func, ast.Name) or len(call.args) != 1:
        return False
    bindings = module.bindings(call.func.id, module.scopes.scopes[call])
    function = bindings[0].node if len(bindings) == 1 else None
    if not isinstance(function, ast.FunctionDef) or not function.args.args:
        return False
    name = function.args.args[0].arg
    reads = [one for one in ast.walk(function) if isinstance(one, ast.Name) and one.id == name]
    given = (module.scopes.parents.get(one) for one in reads)
    return bool(reads) and all(
        isinstance(parent, ast.Call)
        and (function_of(module, parent) == "find_spec" or _only_tries(module, parent))
        and len(parent.args) == 1
        and parent.args[0] is one
        for one, parent in zip(reads, given, strict=True)
    )


def _only_tries(module: PythonModule, call: ast.Call) -> bool:
    """Whether a call imports a module as a statement of its own."""
    is_statement = isinstance(module.scopes.parents.get(call), ast.Expr)
    return is_statement and function_of(module, call) in ("__import__", "import_module")


def anchored(module: PythonModule, string: ast.Constant) -> ast.expr | None:
    """Return ``.reader`` of ``import_module(".reader", "petastorm")``, whose package it is."""
    call = module.scopes.parents.get(string)
    if isinstance(call, ast.keyword) and call.arg == "package":
        call = module.scopes.parents.get(call)
    elif not (isinstance(call, ast.Call) and call.args[1:2] == [string]):
        return None
    if not isinstance(call, ast.Call) or function_of(module, call) not in (
        "find_spec",
        "import_module",
    ):
        return None
    return call.args[0] if call.args else None


def _is_listed(module: PythonModule, string: ast.Constant) -> bool:
    """Whether it is in a list of modules that a tool reads."""
    names = module.scopes.parents.get(string)
    if isinstance(names, ast.Assign):  # ``pytest_plugins`` may be one string
        return [ast.unparse(one) for one in names.targets] == ["pytest_plugins"]
    if not isinstance(names, ast.List | ast.Tuple | ast.Set):
        return False
    return _is_list_of_tool(module, names)


def _is_list_of_tool(module: PythonModule, names: ast.AST, depth: int = 2) -> bool:
    """Whether a list, or a sum with one, is given to a tool, by itself or by a name."""
    parent = module.scopes.parents.get(names)
    while isinstance(parent, ast.BinOp) and isinstance(parent.op, ast.Add):
        parent = module.scopes.parents.get(parent)
    match parent:
        case ast.keyword(arg=name):
            return name in _LISTS
        case ast.Assign(targets=[ast.Name(id=name)]) | ast.AugAssign(target=ast.Name(id=name)):
            if name in _LISTS:
                return True
            read = (one.node for one in module.scopes.references.get(name, ()))
            return depth > 0 and any(_is_list_of_tool(module, one, depth - 1) for one in read)
    return False


def _is_target(module: PythonModule, string: ast.Constant) -> bool:
    """Whether it is the value of ``_target_``, as a key, an argument, a variable or an item."""
    match module.scopes.parents.get(string):
        case ast.keyword(arg=name):
            return name == _TARGET
        case ast.Dict(keys=keys, values=values) if string in values:
            return string_value(keys[values.index(string)]) == _TARGET
        case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
            node = target.slice if isinstance(target, ast.Subscript) else target
            return string_value(node) == _TARGET or ast.unparse(node) == _TARGET
    return False


def looked_up(module: PythonModule, string: ast.Constant) -> str | None:
    """Return the function that looks a module or a distribution up by the string, if one does."""
    call = module.scopes.parents.get(string)
    if isinstance(call, ast.keyword):
        call = module.scopes.parents.get(call)
    if not isinstance(call, ast.Call):
        return _looked_up_by_loop(module, string)
    name = function_of(module, call)
    is_asked_for = string.value == OLD_ROOT and _ASKS_FOR.search(name) is not None
    if (
        is_asked_for
        or is_resource(module, string)
        or _LOOKS_UP.search(name)
        or re.search("lazy", ast.unparse(call.func), re.IGNORECASE)
        or (name in TAKES_DISTRIBUTION and string in call.args and _is_of_metadata(module, call))
    ):
        return f"{name}()"
    return None


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


def compares_version(module: PythonModule, string: ast.Constant) -> bool:
    """Whether ``pytest.importorskip`` asks for a version of Petastorm, too."""
    call = call_with_first(module, string)
    if call is None or function_of(module, call) != "importorskip":
        return False
    return len(call.args) > 1 or any(one.arg == "minversion" for one in call.keywords)


def is_asked_beside(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a test that a string belongs to names Petastorm to something that nobody changes."""
    tests = [one for one in module.ancestors(string) if isinstance(one, ast.BoolOp)]
    return any(
        isinstance(one, ast.Constant)
        and _DOTTED.fullmatch(str(one.value))
        and isinstance(module.scopes.parents.get(one), ast.Call)
        and not is_path(module, one)
        for test in tests[-1:]
        for one in ast.walk(test)
    )
