"""Write dataset metadata and index row groups: the mirror of ``petastorm.etl``."""

from mdstorm.etl.rowgroup_indexers import RowGroupIndexerBase

__all__ = ["RowGroupIndexerBase"]
