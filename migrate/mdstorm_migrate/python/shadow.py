"""Local files that shadow the library: ``petastorm.py``, a package of that name, a copy of it."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path, PurePath

from mdstorm_migrate.base.directories import is_project
from mdstorm_migrate.petastorm.names import OLD_ROOT
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.scopes import Binding
from mdstorm_migrate.python.vendored import SOURCES, VENDORING, copy_for


def shadowed(module: PythonModule, binding: Binding) -> str | None:
    """Return the neighbour of the file, or the copy, that an import may mean; None without.

    A script finds what stands beside it before it finds the library; a module of a package does
    not. Of a single file ``petastorm.py`` nothing like ``petastorm.spark`` can be imported.
    """
    return own_part(module, binding) or hiding(module, binding.imported_module)


def own_part(module: PythonModule, binding: Binding) -> str | None:
    """Return the file of the project's own package ``petastorm`` that an import in it means.

    None if the file is of no such package, or the package has nothing of that name.
    """
    path = module.document.path
    package = None if path is None else _own_package(str(path.parent))
    if package is None:
        return None
    parts = (binding.target or binding.imported_module).split(".")[1:2]
    here = Path(package)
    if not parts:
        return f"{OLD_ROOT}/" if _is_root(here.parent) else None
    place = here / parts[0]
    if place.is_dir():
        return f"{OLD_ROOT}/{parts[0]}/"
    if place.with_suffix(".py").is_file():
        return f"{OLD_ROOT}/{parts[0]}.py"
    is_defined = re.search(rf"\b{parts[0]}\b", (here / "__init__.py").read_text("utf-8", "replace"))
    return f"{OLD_ROOT}/__init__.py" if is_defined else None


def has_own_package(path: PurePath | None) -> bool:
    """Whether a package ``petastorm`` of the project's own stands beside a file, or in ``src``."""
    if path is None:
        return False
    places = (Path(path.parent), Path(path.parent) / "src")
    return any((one / OLD_ROOT / "__init__.py").is_file() for one in places)


def hiding(module: PythonModule, dotted: str) -> str | None:
    """Return the neighbour, or the copy, that a dotted path may mean; None if there is none."""
    path = module.document.path
    if path is None:
        return None
    if (copy := copy_for(module)) is not None:
        return copy.name
    if is_stub(path):
        return f"{OLD_ROOT}/"
    is_file, is_package = _neighbours(str(path.parent))
    if is_package:
        return f"{OLD_ROOT}/"
    if is_file and dotted == OLD_ROOT and path.name != f"{OLD_ROOT}.py":
        return f"{OLD_ROOT}.py"
    return None


def is_stub(path: PurePath | None) -> bool:
    """Whether a file is one of a folder of stubs for the library, which says what its types are."""
    if path is None or path.suffix != ".pyi":
        return False
    return any(
        one.name == f"{OLD_ROOT}-stubs"
        or (one.name == OLD_ROOT and Path(one, "__init__.pyi").is_file())
        for one in path.parents
    )


@lru_cache(maxsize=1024)
def _own_package(folder: str) -> str | None:
    """Return the package ``petastorm`` that a folder is, or is in; None if it is of another one."""
    here = Path(folder).absolute()
    for one in (here, *here.parents):
        if not (one / "__init__.py").is_file():
            return None
        if one.name == OLD_ROOT and not (one.parent / "__init__.py").is_file():
            return str(one)
    return None


def _is_root(folder: Path) -> bool:
    """Whether packages are imported from a folder."""
    is_named = folder.name in (*SOURCES, *VENDORING)
    return is_named or is_project(folder)


@lru_cache(maxsize=1024)
def _neighbours(folder: str) -> tuple[bool, bool]:
    """Whether a file and whether a package of that name stand in a folder of scripts."""
    here = Path(folder)
    if (here / "__init__.py").exists():
        return False, False
    return (here / f"{OLD_ROOT}.py").is_file(), (here / OLD_ROOT / "__init__.py").is_file()
