"""Row group selectors: the mirror of ``petastorm.selectors``."""

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
