"""Indexers: which row groups hold which values of a field."""

from __future__ import annotations

from mdstorm._selection.row_group_indexers import (
    FieldNotNullIndexer,
    RowGroupIndexerBase,
    SingleFieldIndexer,
)

__all__ = [
    "FieldNotNullIndexer",
    "RowGroupIndexerBase",
    "SingleFieldIndexer",
]
