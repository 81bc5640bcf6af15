"""Write Arrow data and samples as MDS shards."""

from __future__ import annotations

from mdstorm_backend.format.shard_info import MARKER_NAME
from mdstorm_backend.write.commit import list_unfinished, remove_dataset, write_index

__all__ = ["MARKER_NAME", "list_unfinished", "remove_dataset", "write_index"]
