"""Write Arrow data and samples as MDS shards."""

from __future__ import annotations

from mdstorm_backend.write.commit import MARKER_NAME, remove_dataset, write_index

__all__ = ["MARKER_NAME", "remove_dataset", "write_index"]
