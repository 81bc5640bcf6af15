"""Copies of Petastorm in the tree, which files import instead of the library."""

from __future__ import annotations

import ast
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from mdstorm_migrate.petastorm.names import OLD_ROOT, PUBLIC, is_petastorm
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.scopes import Binding

#: Directories that hold copies of libraries.
VENDORING = (
    *("third_party", "thirdparty", "third-party", "3rdparty", "vendor", "vendored", "_vendor"),
    *("vendors", "extern", "external", "externals", "deps", "_deps", "site-lib"),
)
#: Directories that are on the path.
SOURCES = ("src", "lib", "libs", "python")
#: Code that changes where modules are found, and the strings in it.
_PATH_CHANGE = re.compile(
    r"\b(?:sys\.path\b|addsitedir\(|syspath_prepend\()[^\n]*(?:\n[^\n]+){0,2}"
)
_WORD = re.compile(r"[\"']([\w./-]+)[\"']")
#: How many directories above a file are looked at.
_ABOVE = 12


@dataclass(frozen=True)
class Copy:
    """A copy of Petastorm in the tree.

    Attributes
    ----------
    path : Path
        Absolute.
    name : str
        Its path from the directory that it has in common with what imports it.
    """

    path: Path
    name: str


@lru_cache(maxsize=1)
def copy_for(module: PythonModule) -> Copy | None:
    """Return the copy of Petastorm in the tree that the file imports; None if there is none.

    It has what the file imports: a package of one's own that is called ``petastorm`` has not.
    """
    path = module.document.path
    imports = [one for one in module.scopes.bindings if is_petastorm(one.imported_module)]
    if path is None or not imports:
        return None
    file = Path(os.path.abspath(path))
    copies = [one for one in _copies(file, module.text) if one.path not in file.parents]
    return next((copy for copy in copies if any(_serves(copy.path, one) for one in imports)), None)


@lru_cache(maxsize=256)
def is_own_package(package: Path) -> bool:
    """Whether a package ``petastorm`` is the project's own, and has nothing that Petastorm has."""
    modules = ((module.split(".")[1:], names - {"__version__"}) for module, names in PUBLIC.items())
    return not any(
        _is_module(package, parts) and _given(package.joinpath(*parts)) & {*names, "*"}
        for parts, names in modules
    )


def _copies(path: Path, text: str) -> Iterator[Copy]:
    """Yield packages ``petastorm`` that a file may import: on its path, or put there by it."""
    said = {
        "/".join(part for part in word.split("/") if part not in ("", ".", ".."))
        for change in _PATH_CHANGE.findall(text)
        for word in _WORD.findall(change)
    } - {""}
    for above in list(path.parents)[:_ABOVE]:
        for name in ("", *SOURCES, *VENDORING, *sorted(said)):
            is_part = _is_package(above / name) and name not in said  # of another package
            if _is_package(above / name / OLD_ROOT) and not is_part:
                yield Copy(above / name / OLD_ROOT, f"{name}/{OLD_ROOT}/".lstrip("/"))
        if (above / ".git").exists():
            return


@lru_cache(maxsize=4096)
def _is_package(folder: Path) -> bool:
    return (folder / "__init__.py").is_file()


def _serves(copy: Path, binding: Binding) -> bool:
    """Whether a copy has what an import names."""
    _, *parts = binding.imported_module.split(".")
    if not _is_module(copy, parts):
        return False
    if isinstance(binding.statement, ast.ImportFrom) and isinstance(binding.node, ast.alias):
        name = binding.node.name
        given = _given(copy.joinpath(*parts))
        return name in given or "*" in given or name == "*" or _is_module(copy, [*parts, name])
    return bool(parts) or bool(_given(copy))


def _is_module(copy: Path, parts: list[str]) -> bool:
    found = copy.joinpath(*parts)
    return _is_package(found) or bool(parts and found.with_name(f"{parts[-1]}.py").is_file())


@lru_cache(maxsize=256)
def _given(module: Path) -> frozenset[str]:
    """Return the names that a module binds, but not those that it imports from the library."""
    file = module / "__init__.py" if module.is_dir() else module.with_name(f"{module.name}.py")
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return frozenset("*")
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case ast.ImportFrom(module=source, names=names) if source != OLD_ROOT:
                found.update(one.asname or one.name for one in names)
    return frozenset(found)
