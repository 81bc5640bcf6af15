"""Select rows and row groups: predicates, filters, selectors and n-grams."""

from __future__ import annotations

from mdstorm._selection.described import described_predicate, name_of, shortened
from mdstorm._selection.predicate_filter import PredicateFilter
from mdstorm._selection.row_filter import RowFilter
from mdstorm._selection.row_group_index import (
    FieldNotNullIndexer,
    Indexer,
    RowGroupIndexerBase,
    SingleFieldIndexer,
    load_row_group_index,
    save_indexers,
)
from mdstorm._selection.shard_views import (
    RankShare,
    ShardView,
    SplitShards,
    prune_by_predicate,
)

__all__ = [
    "FieldNotNullIndexer",
    "Indexer",
    "PredicateFilter",
    "RankShare",
    "RowFilter",
    "RowGroupIndexerBase",
    "ShardView",
    "SingleFieldIndexer",
    "SplitShards",
    "described_predicate",
    "load_row_group_index",
    "name_of",
    "prune_by_predicate",
    "save_indexers",
    "shortened",
]
