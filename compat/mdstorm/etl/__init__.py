"""What is done to datasets as wholes: writing their metadata, indexing their row groups."""

from mdstorm.etl.rowgroup_indexers import RowGroupIndexerBase

__all__ = ["RowGroupIndexerBase"]
