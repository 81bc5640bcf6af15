"""Which directories begin a project, and which hold none of its code: tools, vendored code."""

from __future__ import annotations

import os
from pathlib import Path

#: Directories with code of others that projects keep in their repositories.
_VENDORED = frozenset({"_vendor", "third_party", "vendor"})
_NAMES = frozenset(
    {
        ".bzr",
        ".eggs",
        ".git",
        ".hg",
        ".ipynb_checkpoints",
        ".mypy_cache",
        ".nox",
        ".pytest_cache",
        ".ruff_cache",
        ".svn",
        ".tox",
        ".venv",
        "__pycache__",
        "__pypackages__",
        "build",
        "dist",
        "node_modules",
        "site-packages",
        "venv",
        *_VENDORED,
    }
)
#: Directories of tools that hold code of the project where git tracks it.
_PERHAPS_OURS = frozenset({"build", "dist"})
#: What the directory of a project holds.
_PROJECT = (".git", "pyproject.toml", "setup.py", "setup.cfg")


def is_project(directory: Path) -> bool:
    """Whether a project begins in a directory, by what it holds."""
    return any(os.path.exists(directory / name) for name in _PROJECT)


def is_vendored(directory: Path) -> bool:
    """Whether a directory holds a copy of others' code, by its name."""
    return directory.name in _VENDORED


def is_perhaps_ours(directory: Path) -> bool:
    """Whether a foreign directory holds code of the project if git tracks it.

    A directory with a ``pyvenv.cfg`` is an environment, and nobody commits one.
    """
    return directory.name in _PERHAPS_OURS or not _has_foreign_name(directory)


def is_foreign(directory: Path) -> bool:
    """Whether a directory holds no code of the project, by its name or as an environment."""
    return _has_foreign_name(directory) or os.path.exists(directory / "pyvenv.cfg")


def _has_foreign_name(directory: Path) -> bool:
    return directory.name in _NAMES or directory.name.endswith(".egg-info")
