"""Paths in reports: relative to the current directory, or as URIs."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote


def relative_path(path: Path) -> str:
    """Return a path from the current directory, with slashes; what is not below it as it is."""
    try:
        return Path(os.path.abspath(path)).relative_to(Path.cwd()).as_posix()
    except ValueError:
        return path.as_posix()


def uri(path: Path) -> str:
    """Return a relative URI for what is below the current directory, otherwise a ``file:`` URI."""
    relative = relative_path(path)
    if os.path.isabs(relative):
        return f"file://{quote(os.fsencode(relative))}"
    if relative.startswith("../"):
        return f"file://{quote(os.fsencode(os.path.abspath(path)))}"
    return quote(os.fsencode(relative))
