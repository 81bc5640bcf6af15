"""Row-group indexers, mirroring ``petastorm.etl.rowgroup_indexers``."""

from mdstorm._petastorm_names import other_names
from mdstorm._selection import FieldNotNullIndexer, RowGroupIndexerBase, SingleFieldIndexer

__all__ = ["FieldNotNullIndexer", "RowGroupIndexerBase", "SingleFieldIndexer"]

__getattr__ = other_names(__name__)
