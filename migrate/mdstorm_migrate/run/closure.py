"""What is reached along the edges of a graph of files."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from pathlib import Path


def closure(paths: Iterable[Path], edges: Mapping[Path, Collection[Path]]) -> set[Path]:
    """Return files and what is reached from them."""
    todo = list(paths)
    found = set(todo)
    while todo:
        new = set(edges.get(todo.pop(), ())) - found
        found |= new
        todo += new
    return found
