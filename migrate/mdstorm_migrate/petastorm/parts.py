"""Parts of Petastorm's objects that mdstorm's objects of the same name lack.

They are what Petastorm 0.13.1's classes have and mdstorm's have not, by introspection of both; a
test compares the table with mdstorm.
"""

from __future__ import annotations

from mdstorm_migrate.petastorm.names import words

_POOL = words(
    "all_workers_done current_worker_done diagnostics get_results join make_publish_func "
    "results_qsize start stop ventilate _context _control_sender "
    "_create_local_socket_on_random_port _get_results_worker_id _profiling_enabled "
    "_results_queue _results_queue_size _results_queues _results_receiver "
    "_results_receiver_poller _serializer _stop_aware_put _stop_event _ventilated_items "
    "_ventilator _ventilator_queue _ventilator_queues _ventilator_send _worker _workers "
    "_zmq_copy_buffers"
)
_READER = words(
    "_apply_predicate_to_row_groups _apply_row_group_selector _create_ventilator "
    "_filter_row_groups _normalize_shuffle_options _partition_row_groups "
    "_results_queue_reader _workers_pool ventilator"
)
#: What a loader of `make_torch_dataloader` lacks of Petastorm's.
_OF_CONVERTER = words(
    "_batch_acc _error _in_iter _iter_impl _shuffling_buffer _yield_batches data_loader_fn "
    "loader parquet_file_url_list petastorm_reader_kwargs reader shuffling_queue_capacity "
    "transform_fn"
)

#: By the last part of the name of the function that makes the object, or of the class.
LACKING: dict[str, frozenset[str]] = {
    "make_reader": _READER,
    "make_batch_reader": _READER,
    "Reader": _READER,
    "ThreadPool": _POOL,
    "ProcessPool": _POOL,
    "DummyPool": _POOL,
    "make_tf_dataset": words(
        "parquet_file_url_list petastorm_reader_kwargs reader shuffling_queue_capacity"
    ),
    "make_torch_dataloader": _OF_CONVERTER,
    "LocalDiskCache": words("_cache _cleanup _default_settings _path _size_limit_bytes"),
    "NGram": words("_ngram_pass_threshold _validate_ngram"),
    "RandomShufflingBuffer": words(
        "_extra_capacity _min_after_dequeue _shuffling_queue_capacity _size"
    ),
    "BatchedNoopShufflingBuffer": words("_batch_start_idx _buffer"),
    "BatchedRandomShufflingBuffer": words(
        "_extra_capacity _items _min_after_dequeue _random_indices _shuffling_queue_capacity "
        "next_sample_head"
    ),
    "SparkDatasetConverter": words("_check_and_set_overriden_petastorm_args"),
    "BatchedDataLoader": words("_batch_acc"),
    "InMemBatchedDataLoader": words("_in_iter"),
    "FilesystemResolver": words("_filesystem_factory _parsed_dataset_url"),
}

#: What the objects in attributes of a reader's lack, by the attributes that lead there.
LACKING_BEHIND: dict[str, frozenset[str]] = {
    # The `ParquetDataset` of old pyarrow in Petastorm, and a piece of it.
    "dataset": words(
        "common_metadata_path get_row_group_info metadata metadata_path "
        "partitions read read_pandas validate_schemas"
    ),
    "pieces": words("get_metadata open read"),
    # A piece as well, and a fragment of pyarrow's in mdstorm.
    "load_row_groups": words("get_metadata open partition_keys read row_group"),
    # Those of old pyarrow, which are fsspec's in mdstorm.
    "filesystem": words("chown df get_capacity get_space_used is_open pathsep read_parquet"),
}

#: What to do instead, for some of them.
INSTEAD: dict[tuple[str, str], str] = {
    ("dataset", "metadata"): "get_schema_from_dataset_url() returns the schema in it",
    ("dataset", "partitions"): "pieces[…].partition_keys has them",
    ("dataset", "read"): "pyarrow.parquet.read_table(dataset.paths) reads it",
    ("dataset", "read_pandas"): "pyarrow.parquet.read_table(dataset.paths) reads it",
    ("filesystem", "pathsep"): "the separator of paths is `/`",
    ("filesystem", "read_parquet"): "pyarrow.parquet.read_table(path, filesystem=…) reads it",
    ("pieces", "get_metadata"): "pyarrow.parquet.read_metadata(piece.path) gives it",
    ("pieces", "open"): "pyarrow.parquet.ParquetFile(piece.path) opens it",
    ("pieces", "read"): "pyarrow.parquet.read_table(piece.path) reads it",
    ("load_row_groups", "get_metadata"): "fragment.metadata is the metadata of its file",
    ("load_row_groups", "open"): "pyarrow.parquet.ParquetFile(fragment.open()) opens it",
    (
        "load_row_groups",
        "partition_keys",
    ): "get_partition_keys(fragment.partition_expression) has them",
    ("load_row_groups", "read"): "fragment.to_table() reads it",
    ("load_row_groups", "row_group"): "fragment.row_groups[0].id is its number",
}

#: Those of readers that nothing else is called, whatever they are asked of.
UNMISTAKABLE = words("_results_queue_reader _workers_pool")

_CODEC = (
    "give fields one of Petastorm's codecs, or keep their datasets on Petastorm: "
    "see mdstorm's docs/differences.md#schemas-codecs-and-datasets-of-rows"
)
#: Classes that mdstorm takes no classes made from, and what to do instead.
FINAL: dict[str, str] = {
    "CompressedImageCodec": _CODEC,
    "CompressedNdarrayCodec": _CODEC,
    "DataframeColumnCodec": _CODEC,
    "NdarrayCodec": _CODEC,
    "RowGroupIndexerBase": (
        "make it from SingleFieldIndexer or FieldNotNullIndexer, or build and read the index with "
        "Petastorm: see mdstorm's docs/differences.md#predicates-filters-and-selectors"
    ),
    "ScalarCodec": _CODEC,
}
#: Classes from which indexers may be made all the same.
OPEN = words("FieldNotNullIndexer SingleFieldIndexer")
