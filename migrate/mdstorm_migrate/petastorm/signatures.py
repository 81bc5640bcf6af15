"""Keyword arguments that Petastorm's functions accept, or used to accept."""

from __future__ import annotations

from mdstorm_migrate.petastorm.names import words

_READER = words(
    "cache_extra_settings cache_location cache_row_size_estimate cache_size_limit cache_type "
    "convert_early_to_numpy cur_shard filesystem filters hdfs_driver num_epochs predicate "
    "reader_pool_type results_queue_size rowgroup_selector schema_fields seed shard_count "
    "shard_seed shuffle_row_drop_partitions shuffle_row_groups shuffle_rows storage_options "
    "transform_spec workers_count zmq_copy_buffers"
)
_LOADER = words("batch_size reader shuffling_queue_capacity")

#: Keywords that Petastorm 0.13.1 accepts, by function.
ACCEPTED: dict[str, frozenset[str]] = {
    "BatchedDataLoader": _LOADER | {"transform_fn"},
    "CompressedImageCodec": words("image_codec quality"),
    "DataLoader": _LOADER | {"collate_fn"},
    "FilesystemResolver": words(
        "connector dataset_url hadoop_configuration hdfs_driver storage_options user"
    ),
    "InMemBatchedDataLoader": words(
        "batch_size num_epochs reader rows_capacity seed shuffle transform_fn"
    ),
    "make_batch_reader": _READER | {"dataset_url_or_urls"},
    "NGram": words("delta_threshold fields timestamp_field timestamp_overlap"),
    "Reader": words(
        "cache convert_early_to_numpy cur_shard dataset_path filters is_batched_reader num_epochs "
        "predicate pyarrow_filesystem reader_pool rowgroup_selector schema_fields seed shard_count "
        "shard_seed shuffle_row_drop_partitions shuffle_row_groups shuffle_rows transform_spec "
        "worker_class"
    ),
    "TransformSpec": words("edit_fields func removed_fields selected_fields"),
    "get_filesystem_and_path_or_paths": words("filesystem hdfs_driver storage_options url_or_urls"),
    "make_petastorm_dataset": words("reader"),
    "make_reader": _READER | {"dataset_url", "pyarrow_serialize"},
    "make_spark_converter": words("compression_codec df dtype parquet_row_group_size_bytes"),
    "make_tf_dataset": _READER
    | {"batch_size", "num_epochs", "prefetch", "shuffling_queue_capacity", "workers_count"},
    "make_torch_dataloader": _READER
    | {"batch_size", "data_loader_fn", "num_epochs", "shuffling_queue_capacity", "workers_count"},
    "materialize_dataset": words(
        "dataset_url filesystem_factory row_group_size_mb schema spark use_summary_metadata"
    ),
    "tf_tensors": words("min_after_dequeue reader shuffling_queue_capacity"),
}

#: Keywords that mdstorm adds; migrated code may use them.
ADDED: frozenset[str] = words(
    "batch_map cache_key check_ranks decimals decode device dtype features fill_nulls keep labels "
    "max_image_bytes null_masks on_corrupt order parent_cache_dir_url sample_weights size stack "
    "staging staging_dir_url storage_format storage_options timestamp version world"
)

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
