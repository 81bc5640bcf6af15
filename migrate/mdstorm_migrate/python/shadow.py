"""Neighbours of a file that hide the library: a ``petastorm.py`` or a package of that name."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path, PurePath

from mdstorm_migrate.petastorm.names import OLD_ROOT

__all__ = ["shadowing_neighbour"]


def shadowing_neighbour(path: PurePath | None, imported: str) -> str | None:
    """Return the name of the neighbour that an import in the file `path` may mean; None if none.

    A script finds what stands beside it before it finds the library; a module of a package does
    not. Of a single file ``petastorm.py`` nothing like ``petastorm.spark`` can be imported.

    Parameters
    ----------
    path : PurePath or None
        The file that imports.
    imported : str
        The module that it imports, such as ``"petastorm.spark"``.
    """
    if path is None:
        return None
    is_file, is_package = _neighbours(str(path.parent))
    if is_package:
        return f"{OLD_ROOT}/"
    if is_file and imported == OLD_ROOT and path.name != f"{OLD_ROOT}.py":
        return f"{OLD_ROOT}.py"
    return None


@lru_cache(maxsize=1024)
def _neighbours(folder: str) -> tuple[bool, bool]:
    """Whether a file and whether a package of that name stand in a folder of scripts."""
    here = Path(folder)
    if (here / "__init__.py").exists():
        return False, False
    return (here / f"{OLD_ROOT}.py").is_file(), (here / OLD_ROOT / "__init__.py").is_file()
