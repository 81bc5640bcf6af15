"""Strings that Python, or a function of the project's, resolves as dotted names."""

from __future__ import annotations

import ast
import re

from mdstorm_migrate.petastorm.names import OLD_ROOT
from mdstorm_migrate.python.call_strings import (
    IMPORTING,
    before_in_list,
    call_with_first,
    called,
)
from mdstorm_migrate.python.literals import string_value
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.tables import (
    SYS_MODULES,
    changes_sys_modules,
    is_sys_modules,
    uses_of_item,
)

#: Functions that replace what a dotted path names.
PATCHES = frozenset({"delattr", "multiple", "patch", "setattr"})
#: Functions whose first argument is a dotted path; the last part of their own name.
TAKES_PATH = IMPORTING | PATCHES | {"resolve_name", "run_module"}
#: What resolves the items of a table.
RESOLVING = IMPORTING | {SYS_MODULES}
#: Lists of modules that Sphinx mocks, and that PyInstaller ships.
_LISTS = frozenset({"autodoc_mock_imports", "hiddenimports"})
#: The key under which Hydra and the like find what they call.
_TARGET = "_target_"
_OF_SYS_MODULES = frozenset({"get", "pop", "setdefault"})
#: Methods whose first argument is a mapping, and the second a key of it: those of ``monkeypatch``.
_ITEM_SETTERS = frozenset({"delitem", "setitem"})
#: Functions that look a distribution up; the last part of their own name.
TAKES_DISTRIBUTION = frozenset(
    ["distribution", "get_distribution", "get_version", "require", "requires", "version"]
)
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
    rf"(?:\w+\.)?resource_\w+|(?:importlib\.)?(?:{_OF_FILES})\.{_FUNCTIONS}|(?P<bare>{_FUNCTIONS})"
)
_FROM_FILES = rf"^[ \t]*from[ \t]+(?:{_OF_FILES}|importlib\.resources)[ \t]+import[ \t][^\n]*\b"


def is_path(module: PythonModule, string: ast.Constant) -> bool:
    """Whether Python, or Hydra, takes a string for the path of a module or of a part of one."""
    call = call_with_first(module, string)
    if (
        called(call) in TAKES_PATH
        or finds_spec(module, call)
        or anchored(module, string) is not None
    ):
        return True
    items = uses_of_item(module, string)
    if items is not None and items.functions & RESOLVING:
        return True
    if _is_target(module, string) or _is_listed(module, string):
        return True
    if call is not None and called(call) in _OF_SYS_MODULES:
        return isinstance(call.func, ast.Attribute) and is_sys_modules(call.func.value)
    parent = module.scopes.parents.get(string)
    if isinstance(parent, ast.Call) and called(parent) in _ITEM_SETTERS:
        return parent.args[1:2] == [string] and is_sys_modules(parent.args[0])
    if isinstance(parent, ast.Subscript):
        return parent.slice is string and is_sys_modules(parent.value)
    if isinstance(parent, ast.Compare):
        return parent.left is string and any(map(is_sys_modules, parent.comparators))
    if before_in_list(module, string) == "-m":
        return True
    if isinstance(parent, ast.Dict) and string in parent.keys:
        around = module.scopes.parents.get(parent)
        return isinstance(around, ast.Call) and changes_sys_modules(around)
    return False


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
        and (called(parent) == "find_spec" or _only_tries(module, parent))
        and len(parent.args) == 1
        and parent.args[0] is one
        for one, parent in zip(reads, given, strict=True)
    )


def _only_tries(module: PythonModule, call: ast.Call) -> bool:
    """Whether a call imports a module as a statement of its own."""
    is_statement = isinstance(module.scopes.parents.get(call), ast.Expr)
    return is_statement and called(call) in ("__import__", "import_module")


def anchored(module: PythonModule, string: ast.Constant) -> ast.expr | None:
    """Return ``.reader`` of ``import_module(".reader", "petastorm")``, whose package it is."""
    call = module.scopes.parents.get(string)
    if isinstance(call, ast.keyword) and call.arg == "package":
        call = module.scopes.parents.get(call)
    elif not (isinstance(call, ast.Call) and call.args[1:2] == [string]):
        return None
    if not isinstance(call, ast.Call) or called(call) not in ("find_spec", "import_module"):
        return None
    return call.args[0] if call.args else None


def _is_listed(module: PythonModule, string: ast.Constant) -> bool:
    """Whether it is in a list of modules that a tool reads."""
    names = module.scopes.parents.get(string)
    if not isinstance(names, ast.List | ast.Tuple | ast.Set):
        return False
    match module.scopes.parents.get(names):
        case ast.keyword(arg=name) | ast.Assign(targets=[ast.Name(id=name)]):
            return name in _LISTS
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
        return None
    name = called(call)
    is_asked_for = string.value == OLD_ROOT and _ASKS_FOR.search(name) is not None
    if (
        is_asked_for
        or is_resource(module, string)
        or _LOOKS_UP.search(name)
        or re.search("lazy", ast.unparse(call.func), re.IGNORECASE)
        or (name in TAKES_DISTRIBUTION and string in call.args)
    ):
        return f"{name}()"
    return None


def is_resource(module: PythonModule, string: ast.Constant) -> bool:
    """Whether files of a package are asked for by its name, as by ``resources.files``."""
    call = call_with_first(module, string)
    found = _FINDS_FILES.fullmatch(ast.unparse(call.func)) if call is not None else None
    if found is None or called(call) in TAKES_DISTRIBUTION:
        return False
    bare = found["bare"]
    return bare is None or re.search(rf"{_FROM_FILES}{bare}\b", module.text, re.M) is not None
