"""Which directories begin a project, and which hold none of its code: tools, vendored code."""

from __future__ import annotations

import os
from pathlib import Path

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
        "_vendor",
        "build",
        "dist",
        "node_modules",
        "site-packages",
        "third_party",
        "vendor",
        "venv",
    }
)
#: What the directory of a project holds.
_PROJECT = (".git", "pyproject.toml", "setup.py", "setup.cfg")


def is_project(directory: Path) -> bool:
    """Whether a project begins in a directory, by what it holds."""
    return any(os.path.exists(directory / name) for name in _PROJECT)


def is_foreign(directory: Path) -> bool:
    """Whether a directory holds no code of the project, by its name or as an environment."""
    name = directory.name
    is_named = name in _NAMES or name.endswith(".egg-info")
    return is_named or os.path.exists(directory / "pyvenv.cfg")
