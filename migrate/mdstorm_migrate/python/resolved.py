"""Strings that Python, or a function of the project's, resolves as dotted names."""

from __future__ import annotations

import ast
import re

from mdstorm_migrate.petastorm.names import OLD_ROOT
from mdstorm_migrate.python.call_strings import (
    IMPORTING,
    before_in_list,
    call_with_first,
    function_of,
)
from mdstorm_migrate.python.literals import string_value
from mdstorm_migrate.python.module import PythonModule
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
#: Those of them that mean what other files import, whichever these are.
_OF_OTHERS = re.compile(r"\b(?:autodoc_mock_imports|hiddenimports)\b")
#: The key under which Hydra and the like find what they call.
_TARGET = "_target_"
_DOTTED = re.compile(rf"{OLD_ROOT}(?:\.[^\W\d]\w*)*")


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


def lists_modules(module: PythonModule) -> bool:
    """Whether a file has lists of modules for tools that mean those of all code."""
    return _OF_OTHERS.search(module.text) is not None


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
