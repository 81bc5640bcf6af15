"""Write Arrow data and samples as MDS shards.

Spark's workers import it: it needs neither PyTorch nor TensorFlow nor the rooms that read datasets.
"""

from __future__ import annotations

from mdstorm_backend.write.commit import (
    index_to_replace,
    list_unfinished,
    remove_dataset,
    write_index,
)

__all__ = ["index_to_replace", "list_unfinished", "remove_dataset", "write_index"]
