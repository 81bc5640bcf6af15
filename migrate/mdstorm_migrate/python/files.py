"""Calls that ship the files of a package, which they are given by its name or as a module."""

from __future__ import annotations

import ast
import re

from mdstorm_migrate.python.call_strings import call_with_first, function_of
from mdstorm_migrate.python.module import PythonModule, last_name

#: Functions that put a package into what is shipped: of PyInstaller and Modal.
_SHIPS = frozenset(
    [
        "add_local_python_source",
        "collect_all",
        "collect_data_files",
        "collect_dynamic_libs",
        "collect_submodules",
        "copy_metadata",
        "from_local_python_packages",
    ]
)
#: Functions that ship a module that they are given as an object: of cloudpickle.
_BY_VALUE = frozenset({"register_pickle_by_value"})
#: Where Luigi has the names of the packages that it imports and ships.
_PACKAGES = "py_packages"
#: Where Ray has the modules that it ships.
_MODULES = re.compile(r"\bpy_modules\b")
#: A hook of PyInstaller's, which it finds by the name of the module that it is for.
_HOOK = re.compile(r"hook-(?P<module>petastorm(?:\.\w+)*)\.py")


def hooked(module: PythonModule) -> str | None:
    """Return the module of Petastorm's that the file is a hook of PyInstaller's for."""
    path = module.document.path
    found = None if path is None else _HOOK.fullmatch(path.name)
    return None if found is None else found["module"]


def ships_package(module: PythonModule, string: ast.Constant) -> str | None:
    """Return what ships the files of the package of that name: a function, or a list of names."""
    call = module.scopes.parents.get(string)
    if isinstance(call, ast.List | ast.Tuple | ast.Set):
        match module.scopes.parents.get(call):
            case (
                ast.Assign(targets=[ast.Name(id=name) | ast.Attribute(attr=name)])
                | ast.keyword(arg=str(name))
            ):
                return f"`{name}`" if name == _PACKAGES else None
    if not isinstance(call, ast.Call):
        call = call_with_first(module, string)
    name = function_of(module, call)
    return f"{name}()" if name in _SHIPS else None


def is_shipped(module: PythonModule, node: ast.expr) -> bool:
    """Whether a module is shipped as an object, as in ``{"py_modules": [petastorm]}`` of Ray."""
    match module.scopes.parents.get(node):
        case ast.Call(func=function, args=arguments) if node in arguments:
            if last_name(function) == "append":
                return _MODULES.search(module.text) is not None
            return last_name(function) in _BY_VALUE
        case ast.List() | ast.Tuple():
            return _MODULES.search(module.text) is not None
    return False
