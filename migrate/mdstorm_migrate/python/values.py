"""What a variable holds: guessed from the calls that it is assigned from."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterable
from functools import lru_cache, partial

from mdstorm_migrate.libraries.removed import words
from mdstorm_migrate.libraries.tables import CONVERSIONS, MAKERS
from mdstorm_migrate.python.libraries import library_path, scope_of
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.scopes import Binding

#: Stands for everything that pandas makes.
FRAME = "pandas.DataFrame"
_NUMPY = "numpy.ndarray"
_DATASET = "pyarrow.parquet.ParquetDataset"
#: Functions of NumPy whose result is an array.
_ARRAYS = words("array asarray zeros ones empty arange stack concatenate frombuffer", "numpy.")
#: Attributes and methods of frames that give something else.
_LEAVING = words(
    "array at axes boxplot columns empty groups hist iat index item items iterrows itertuples keys "
    "ndim nunique plot shape size style tolist unique values"
)
#: How long chains of calls and assignments may be.
_DEPTH = 50


def class_of(module: PythonModule, node: ast.AST, depth: int = _DEPTH) -> str | None:
    """Return the dotted path of the class of an expression; None if it is not known."""
    if depth == 0:
        return None
    match node:
        case ast.Name(id=name):
            found = module.bindings(name, scope_of(module, node))
            values = (partial(_class_of_bound, module, one, depth - 1) for one in found)
            return _first(module, (found[0].scope if found else None, name), values)
        case ast.Call(func=called):
            path = library_path(module, called)
            if path is not None:
                return _made_by(path)
            if not isinstance(called, ast.Attribute):
                return None
            if called.attr in CONVERSIONS:
                return FRAME
            return _kept(called.attr, class_of(module, called.value, depth - 1))
        case ast.Attribute(value=ast.Name("self"), attr=name):
            assigned = _attributes(module).get(name, [])
            values = (partial(class_of, module, one, depth - 1) for one in assigned)
            return _first(module, ("self", name), values)
        case ast.Attribute(value=value, attr=name):
            return _kept(name, class_of(module, value, depth - 1))
        case ast.Subscript(value=value, slice=index):
            is_cell = isinstance(index, ast.Constant) and isinstance(index.value, int)
            return None if is_cell else _kept("", class_of(module, value, depth - 1))
    return None


def _first(
    module: PythonModule, key: Hashable, values: Iterable[Callable[[], str | None]]
) -> str | None:
    """Return the first class that one of the values of a variable has; each is asked once."""
    known = _known(module)
    if key not in known:
        known[key] = None  # while it is looked for, for it may be assigned from itself
        known[key] = next((one for one in (ask() for ask in values) if one is not None), None)
    return known[key]


@lru_cache(maxsize=1)
def _known(module: PythonModule) -> dict[Hashable, str | None]:
    return {}


@lru_cache(maxsize=1)
def _attributes(module: PythonModule) -> dict[str, list[ast.expr]]:
    """Return what classes of the file assign to attributes of their objects."""
    found: dict[str, list[ast.expr]] = {}
    for node in ast.walk(module.tree):
        match node:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name("self"), attr=name)]):
                found.setdefault(name, []).append(node.value)
    return found


def _made_by(path: str) -> str | None:
    if path in MAKERS:
        return FRAME
    if path == _DATASET:
        return _DATASET
    return _NUMPY if path in _ARRAYS else None


def _kept(name: str, owner: str | None) -> str | None:
    """Return the class of what is taken from a frame, which mostly is a frame again."""
    is_frame = owner == FRAME and name not in _LEAVING and not name.startswith(("to_", "_"))
    return FRAME if is_frame else None


def _class_of_bound(module: PythonModule, binding: Binding, depth: int) -> str | None:
    node = binding.node
    if isinstance(node, ast.arg):
        return _annotated(module, node.annotation)
    match module.scopes.parents.get(node):
        case ast.Assign(targets=targets, value=value) if node in targets:
            return class_of(module, value, depth)
        case ast.AnnAssign(annotation=annotation):
            return _annotated(module, annotation)
        case ast.NamedExpr(value=value):
            return class_of(module, value, depth)
    return None


def _annotated(module: PythonModule, annotation: ast.expr | None) -> str | None:
    path = library_path(module, annotation) if annotation is not None else None
    if path in ("pandas.DataFrame", "pandas.Series"):
        return FRAME
    return path if path in (_DATASET, _NUMPY) else None
