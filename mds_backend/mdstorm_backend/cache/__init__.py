"""The shard cache: local shards are memory-mapped in place; remote shards are downloaded once.

A cache directory holds shards under their names in the index, in the layout that other readers of
the format use, and ``.mdstorm/``, where one record per shard lists the files that this cache made.
The cache never removes other files. Processes share a directory through file locks, one per shard.
They share no state in memory, so any of them may be killed at any time.
"""

from __future__ import annotations

from mdstorm_backend.cache.dataset_files import ShardFiles, read_index, shard_files
from mdstorm_backend.cache.directory import CacheOptions, cache_root, check_cache_root
from mdstorm_backend.cache.fetched_files import FetchedFiles
from mdstorm_backend.cache.kept_files import keep_file
from mdstorm_backend.cache.space import CachedDataset, clear_cached, list_cached

__all__ = [
    "CacheOptions",
    "CachedDataset",
    "FetchedFiles",
    "ShardFiles",
    "cache_root",
    "check_cache_root",
    "clear_cached",
    "keep_file",
    "list_cached",
    "read_index",
    "shard_files",
]
