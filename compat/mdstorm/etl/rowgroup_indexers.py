"""Row group indexers: the mirror of ``petastorm.etl.rowgroup_indexers``."""

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
