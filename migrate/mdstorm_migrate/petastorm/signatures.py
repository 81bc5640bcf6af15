"""Keyword arguments that the functions accept, or used to accept in Petastorm."""

from __future__ import annotations

from mdstorm_migrate.petastorm.names import data_file, words

#: Keywords that mdstorm's functions accept, Petastorm's and its own, by function. The file is
#: written by scripts/write_parameters.py. Programs construct only Petastorm's `Reader`.
ACCEPTED: dict[str, frozenset[str]] = {
    "Reader": words(
        "cache convert_early_to_numpy cur_shard dataset_path filters is_batched_reader num_epochs "
        "predicate pyarrow_filesystem reader_pool rowgroup_selector schema_fields seed shard_count "
        "shard_seed shuffle_row_drop_partitions shuffle_row_groups shuffle_rows transform_spec "
        "worker_class"
    ),
    **{function: frozenset(names) for function, names in data_file("parameters.json").items()},
}

_OPTIONS = {"s3_config_kwargs": "pass storage_options= instead"}
_SHARDS = "pass cur_shard= and shard_count= to the reader instead"
_SHUFFLES = {
    "shuffle": "pass shuffle_row_groups= to the reader instead",
    "shuffle_options": (
        "pass shuffle_row_groups= and shuffle_row_drop_partitions= to the reader instead"
    ),
}
_READER_KEYWORDS = {
    **_OPTIONS,
    **_SHUFFLES,
    "num_training_partitions": _SHARDS,
    "reader_engine": "leave it out: there is one engine",
    "reader_engine_params": "leave it out: there is one engine",
    "sequence": "pass schema_fields=NGram(...) to the reader instead",
    "training_partition": _SHARDS,
}
_IN_MEMORY = "InMemBatchedDataLoader keeps rows in memory, and has num_epochs="

#: Keywords that have been renamed since Petastorm 0.9.3.
RENAMED_KEYWORDS = {("make_batch_reader", "dataset_url"): "dataset_url_or_urls"}

#: Keywords that older versions accepted, by function, and what to do instead.
REMOVED_KEYWORDS: dict[str, dict[str, str]] = {
    "BatchedDataLoader": {"inmemory_cache_all": _IN_MEMORY, "num_epochs": _IN_MEMORY},
    "DataLoader": {
        "transform": "pass transform_spec=TransformSpec(...) to the reader instead",
    },
    "FilesystemResolver": _OPTIONS,
    "Reader": {
        **_READER_KEYWORDS,
        "dataset_url": "make_reader() takes a URL; this class takes a file system and a path",
    },
    "get_filesystem_and_path_or_paths": _OPTIONS,
    "make_batch_reader": {
        **_READER_KEYWORDS,
        "dataset_url": "since Petastorm 0.9.3, the argument is called dataset_url_or_urls",
    },
    "make_reader": _READER_KEYWORDS,
    "make_tf_dataset": _OPTIONS,
    "make_torch_dataloader": _OPTIONS,
    "materialize_dataset": {
        "pyarrow_filesystem": "pass filesystem_factory=, a function that returns it, instead",
    },
}

#: Number of positional arguments that mean the same in all versions of Petastorm, by function.
#: After these, version 0.12 inserted `seed` and `shuffle_rows`; `make_batch_reader` also got
#: `results_queue_size`.
FIXED_POSITIONS = {"Reader": 3, "make_batch_reader": 4, "make_reader": 6}

#: Keywords that concern Parquet, and their meaning in mdstorm.
PARQUET: dict[str, str] = {
    "filters": "rows are filtered exactly, also by columns that are not partitions",
    "hdfs_driver": "accepted and ignored, because pyarrow's or fsspec's file system is used",
    "parquet_row_group_size_bytes": "the largest size of an MDS shard",
    "pyarrow_serialize": "accepted and ignored",
    "storage_options": "arguments of the fsspec file system, for reading and writing",
    "zmq_copy_buffers": "accepted and ignored, because mdstorm does not use ZeroMQ",
}
