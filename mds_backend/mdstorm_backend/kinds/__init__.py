"""The kinds of data that can be opened: one class per kind, and the function that opens any.

Each module of this folder is imported here, so that its kinds register themselves.
"""

from importlib import import_module
from pkgutil import iter_modules

from mdstorm_backend.kinds.dataset import open_dataset
from mdstorm_backend.kinds.kind import Kind, ParquetKind
from mdstorm_backend.kinds.mds import directory_of, index_directory, is_shard
from mdstorm_backend.kinds.opening import explaining_absence, open_stored, what_is_at
from mdstorm_backend.kinds.place import Openable, Place

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = [
    "Kind",
    "Openable",
    "ParquetKind",
    "Place",
    "directory_of",
    "explaining_absence",
    "index_directory",
    "is_shard",
    "open_dataset",
    "open_stored",
    "what_is_at",
]
