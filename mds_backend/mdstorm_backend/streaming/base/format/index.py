"""The mirror of ``streaming.base.format.index``."""

from __future__ import annotations

from mdstorm_backend.format import INDEX_NAME

__all__ = ["get_index_basename"]


def get_index_basename() -> str:
    """Return the file name of every index, ``index.json``."""
    return INDEX_NAME
