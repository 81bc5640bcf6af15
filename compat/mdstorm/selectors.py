"""Selectors: row groups to read, chosen by an index that `build_rowgroup_index` has made."""

from __future__ import annotations

from mdstorm._selection.selectors import (
    IntersectIndexSelector,
    RowGroupSelectorBase,
    SingleIndexSelector,
    UnionIndexSelector,
)

__all__ = [
    "IntersectIndexSelector",
    "RowGroupSelectorBase",
    "SingleIndexSelector",
    "UnionIndexSelector",
]
