"""Local files that shadow the library: ``petastorm.py`` or a package of that name."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from mdstorm_migrate.petastorm.names import OLD_ROOT
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.scopes import Binding


def shadowed(module: PythonModule, binding: Binding) -> str | None:
    """Return the neighbour of the file that an import may mean; None if there is none.

    A script finds what stands beside it before it finds the library; a module of a package does
    not. Of a single file ``petastorm.py`` nothing like ``petastorm.spark`` can be imported.
    """
    return hiding(module, binding.imported_module)


def hiding(module: PythonModule, dotted: str) -> str | None:
    """Return the neighbour of the file that a dotted path may mean; None if there is none."""
    path = module.document.path
    if path is None:
        return None
    is_file, is_package = _neighbours(str(path.parent))
    if is_package:
        return f"{OLD_ROOT}/"
    if is_file and dotted == OLD_ROOT and path.name != f"{OLD_ROOT}.py":
        return f"{OLD_ROOT}.py"
    return None


@lru_cache(maxsize=1024)
def _neighbours(folder: str) -> tuple[bool, bool]:
    """Whether a file and whether a package of that name stand in a folder of scripts."""
    here = Path(folder)
    if (here / "__init__.py").exists():
        return False, False
    return (here / f"{OLD_ROOT}.py").is_file(), (here / OLD_ROOT / "__init__.py").is_file()
