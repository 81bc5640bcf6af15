"""User code that an import of Petastorm may find first: a neighbouring file, a copy, or stubs."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Literal

from mdstorm_migrate.base.document import is_databricks_notebook
from mdstorm_migrate.petastorm.names import OLD_ROOT
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.scopes import Binding

#: Directories that are often on the import path, and those that often hold vendored libraries.
SOURCES = ("src", "lib", "libs", "python")
_VENDORING = (
    *("third_party", "thirdparty", "third-party", "3rdparty", "vendor", "vendored", "_vendor"),
    *("vendors", "extern", "external", "externals", "deps", "_deps", "site-lib"),
)
#: Code that changes the import path, and the strings in it.
_PATH_CHANGE = re.compile(r"\bsys\.path\b[^\n]*")
_WORD = re.compile(r"[\"']([\w./-]+)[\"']")
#: Files that copies of Petastorm contain, and that other packages with that name rarely contain.
_COPY_FILES = ("reader.py", "unischema.py", "etl", "spark", "pytorch.py", "tf_utils.py")
#: Files in the root of a project.
_PROJECT_FILES = (".git", "pyproject.toml", "setup.py", "setup.cfg")
#: Number of parent directories to search.
ABOVE = 12


@dataclass(frozen=True)
class Local:
    """User code that an import may find instead of the library.

    Attributes
    ----------
    name : str
        The path as shown in messages.
    kind : str
        ``part`` of the package that contains the file, a ``package`` of the project that only
        shares the name, a ``copy`` of Petastorm, a ``neighbour`` of a script, or ``stubs``.
    """

    name: str
    kind: Literal["part", "package", "copy", "neighbour", "stubs"]


def shadowed(module: PythonModule, binding: Binding) -> Local | None:
    """Return user code that an import of Petastorm may find instead, or None for the library."""
    if _surroundings(module) is None:
        return None
    name = None
    if binding.target and binding.target.startswith(f"{binding.imported_module}."):
        name = binding.target.rpartition(".")[2]
    return shadow_of(module, binding.imported_module, name)


def shadow_of(module: PythonModule, path: str, name: str | None = None) -> Local | None:
    """Return the user code that a path, and a name in it, may refer to, or None for the library.

    A script finds modules in its directory before the library; a module in a package does not. A
    single file ``petastorm.py`` has no submodules such as ``petastorm.spark``.
    """
    around = _surroundings(module)
    if around is None:
        return None
    if around.is_stub:
        return Local(f"{OLD_ROOT}/", "stubs")
    for package, shown in around.packages:
        if package in around.file.parents:
            if part := _own_part(package, path, name):
                return Local(part, "part")
            continue
        is_in_same_folder = around.is_script and package.parent == around.file.parent
        if _provides(package, path, name) or is_in_same_folder:
            is_copy = any((package / one).exists() for one in _COPY_FILES)
            if _is_empty(package):
                return Local(shown, "neighbour")
            return Local(shown, "copy" if is_copy else "package")
    return Local(f"{OLD_ROOT}.py", "neighbour") if path == OLD_ROOT and around.has_file else None


@dataclass(frozen=True)
class _Surroundings:
    """What the imports of a file may find: ``petastorm`` packages, or a file ``petastorm.py``."""

    file: Path
    is_stub: bool = False
    is_script: bool = False
    packages: Sequence[tuple[Path, str]] = ()
    has_file: bool = False


@lru_cache(maxsize=1)
def _surroundings(module: PythonModule) -> _Surroundings | None:
    """Return what the imports of a file may find instead of the library, or None for nothing."""
    if module.document.path is None:
        return None
    file = Path(os.path.abspath(module.document.path))
    is_script = not (file.parent / "__init__.py").exists()
    own = file.with_name(f"{OLD_ROOT}.py")
    has_file = is_script and own != file and own.is_file() and not is_databricks_notebook(own)
    packages = _packages(file.parent, _added_folders(module.text))
    if not (packages or has_file or is_stub(file)):
        return None
    return _Surroundings(file, is_stub(file), is_script, packages, has_file)


def is_stub(path: PurePath | None) -> bool:
    """Whether a file is a type stub for the library."""
    if path is None or path.suffix != ".pyi":
        return False
    return any(
        one.name == f"{OLD_ROOT}-stubs"
        or (one.name == OLD_ROOT and Path(one, "__init__.pyi").is_file())
        for one in path.parents
    )


def _added_folders(text: str) -> frozenset[str]:
    """Return the folders that code adds to the import path."""
    return frozenset(
        "/".join(part for part in word.split("/") if part not in ("", ".", ".."))
        for change in _PATH_CHANGE.findall(text)
        for word in _WORD.findall(change)
    ) - {""}


@lru_cache(maxsize=1024)
def _packages(folder: Path, added: frozenset[str]) -> list[tuple[Path, str]]:
    """Return the ``petastorm`` packages that files in a folder may import, and their names."""
    found = []
    for above in [folder, *folder.parents][:ABOVE]:
        found += _packages_in(above, added)
        if (above / ".git").exists():
            break
    return found


@lru_cache(maxsize=1024)
def _packages_in(folder: Path, added: frozenset[str]) -> list[tuple[Path, str]]:
    """Return the ``petastorm`` packages directly in a folder; many files have it above them."""
    found = []
    for name in ("", *SOURCES, *_VENDORING, *sorted(added)):
        package = folder / name / OLD_ROOT
        is_part = name not in added and (folder / name / "__init__.py").is_file()
        if not is_part and (package / "__init__.py").is_file():
            found.append((package, f"{name}/{OLD_ROOT}/".lstrip("/")))
    return found


def _provides(package: Path, path: str, name: str | None) -> bool:
    """Whether a package defines an imported name itself, without importing the library."""
    _, *parts = path.split(".")
    place = package.joinpath(*parts)
    file = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    if not file.is_file():
        return False
    if name is None or name == "*":
        return bool(parts) or not _is_empty(package)
    if (place / name).is_dir() or (place / f"{name}.py").is_file():
        return True
    text = file.read_text("utf-8", "replace")
    given = rf"^(?!\s*from {OLD_ROOT} import).*\b{name}\b"
    return re.search(given, text, re.MULTILINE) is not None


def _is_empty(package: Path) -> bool:
    return (package / "__init__.py").stat().st_size == 0 and len(list(package.iterdir())) == 1


def _own_part(package: Path, path: str, name: str | None) -> str | None:
    """Return the path, for messages, of the module that a file imports from its own package."""
    first = next(iter([*path.split(".")[1:], *([name] if name else [])]), None)
    if first is None:
        above = package.parent
        is_root = above.name in (*SOURCES, *_VENDORING) or any(
            (above / name).exists() for name in _PROJECT_FILES
        )
        return f"{OLD_ROOT}/" if is_root else None
    if (package / first).is_dir():
        return f"{OLD_ROOT}/{first}/"
    if (package / f"{first}.py").is_file():
        return f"{OLD_ROOT}/{first}.py"
    return f"{OLD_ROOT}/__init__.py" if _provides(package, OLD_ROOT, first) else None


def is_in_project(path: PurePath | None, *parts: str) -> bool:
    """Whether the project has a module or package that a file's code may import."""
    if path is None:
        return False
    above = Path(os.path.abspath(path)).parents[:ABOVE]
    places = (os.path.join(folder, name, *parts) for folder in above for name in ("", *SOURCES))
    return any(os.path.isdir(one) or os.path.exists(f"{one}.py") for one in places)
