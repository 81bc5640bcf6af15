"""Write dataset metadata and index row groups, mirroring ``petastorm.etl``."""

from mdstorm._petastorm_names import other_names
from mdstorm.etl.rowgroup_indexers import RowGroupIndexerBase

__all__ = ["RowGroupIndexerBase"]

__getattr__ = other_names(__name__)
