"""Write Arrow data and samples as MDS shards.

Spark's workers import this package, so it does not need PyTorch, TensorFlow or the packages that
read datasets.
"""

from __future__ import annotations

from mdstorm_backend.write.commit import index_to_replace, write_index
from mdstorm_backend.write.job_files import list_unfinished, remove_dataset

__all__ = ["index_to_replace", "list_unfinished", "remove_dataset", "write_index"]
