"""Keyword arguments that Petastorm's functions accept, or used to accept."""

from __future__ import annotations

_READER = frozenset(
    [
        "cache_extra_settings",
        "cache_location",
        "cache_row_size_estimate",
        "cache_size_limit",
        "cache_type",
        "convert_early_to_numpy",
        "cur_shard",
        "filesystem",
        "filters",
        "hdfs_driver",
        "num_epochs",
        "predicate",
        "reader_pool_type",
        "results_queue_size",
        "rowgroup_selector",
        "schema_fields",
        "seed",
        "shard_count",
        "shard_seed",
        "shuffle_row_drop_partitions",
        "shuffle_row_groups",
        "shuffle_rows",
        "storage_options",
        "transform_spec",
        "workers_count",
        "zmq_copy_buffers",
    ]
)
_LOADER = frozenset({"batch_size", "reader", "shuffling_queue_capacity"})

#: Keywords that Petastorm 0.13.1 accepts, by function.
ACCEPTED: dict[str, frozenset[str]] = {
    "BatchedDataLoader": _LOADER | {"transform_fn"},
    "DataLoader": _LOADER | {"collate_fn"},
    "InMemBatchedDataLoader": frozenset(
        {"batch_size", "num_epochs", "reader", "rows_capacity", "seed", "shuffle", "transform_fn"}
    ),
    "make_batch_reader": _READER | {"dataset_url_or_urls"},
    "make_petastorm_dataset": frozenset({"reader"}),
    "make_reader": _READER | {"dataset_url", "pyarrow_serialize"},
    "make_spark_converter": frozenset(
        {"compression_codec", "df", "dtype", "parquet_row_group_size_bytes"}
    ),
    "make_tf_dataset": _READER
    | {"batch_size", "num_epochs", "prefetch", "shuffling_queue_capacity", "workers_count"},
    "make_torch_dataloader": _READER
    | {"batch_size", "data_loader_fn", "num_epochs", "shuffling_queue_capacity", "workers_count"},
    "materialize_dataset": frozenset(
        {
            "dataset_url",
            "filesystem_factory",
            "row_group_size_mb",
            "schema",
            "spark",
            "use_summary_metadata",
        }
    ),
    "tf_tensors": frozenset({"min_after_dequeue", "reader", "shuffling_queue_capacity"}),
}

#: Keywords that mdstorm adds: code that is migrated already has them.
ADDED: frozenset[str] = frozenset(
    [
        "batch_map",
        "cache_key",
        "decimals",
        "device",
        "features",
        "fill_nulls",
        "keep",
        "labels",
        "null_masks",
        "order",
        "parent_cache_dir_url",
        "sample_weights",
        "staging",
        "staging_dir_url",
        "storage_format",
        "storage_options",
        "timestamp",
        "version",
    ]
)

#: Keywords that older versions accepted, by function, and what does the same today.
REMOVED_KEYWORDS: dict[str, dict[str, str]] = {
    "DataLoader": {
        "transform": "give the reader transform_spec=TransformSpec(...) instead",
    },
    "make_batch_reader": {
        "dataset_url": "the argument is called dataset_url_or_urls since Petastorm 0.9.3",
    },
    "make_reader": {
        "shuffle": "give the reader shuffle_row_groups= instead",
        "shuffle_options": (
            "give the reader shuffle_row_groups= and shuffle_row_drop_partitions= instead"
        ),
    },
}

#: Keywords that mean something for Parquet, and what they mean with mdstorm.
PARQUET: dict[str, str] = {
    "filters": "rows are filtered exactly, by columns that are no partition, too",
    "hdfs_driver": "accepted and ignored: pyarrow's or fsspec's file system is used",
    "parquet_row_group_size_bytes": "the largest size of an MDS shard",
    "pyarrow_serialize": "accepted and ignored",
    "storage_options": "arguments of the fsspec file system, for reading and writing",
    "zmq_copy_buffers": "accepted and ignored: no ZeroMQ is used",
}


def keywords_of(path: str) -> frozenset[str] | None:
    """Return the keywords of a function by its dotted path; None if they are not checked."""
    return ACCEPTED.get(path.rpartition(".")[2])
