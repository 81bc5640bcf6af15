"""Attributes and classes of Petastorm 0.13.1 whose counterparts in mdstorm differ."""

from __future__ import annotations

from mdstorm_migrate.petastorm.names import words

_READER = words(
    "_apply_predicate_to_row_groups _apply_row_group_selector _create_ventilator "
    "_filter_row_groups _normalize_shuffle_options _partition_row_groups "
    "_results_queue_reader _workers_pool ventilator"
)
#: Attributes of Petastorm's loaders that loaders from `make_torch_dataloader` do not have.
_TORCH_LOADER = words(
    "_batch_acc _error _in_iter _iter_impl _shuffling_buffer _yield_batches data_loader_fn "
    "loader parquet_file_url_list petastorm_reader_kwargs reader shuffling_queue_capacity "
    "transform_fn"
)

#: What makes file systems.
_FILE_SYSTEMS = ("filesystem", "get_filesystem_and_path_or_paths")

#: Missing attributes, by the unqualified name of the function, class or attribute that makes the
#: object.
MISSING: dict[str, frozenset[str]] = {
    "make_reader": _READER,
    "make_batch_reader": _READER,
    "Reader": _READER,
    "make_tf_dataset": words(
        "parquet_file_url_list petastorm_reader_kwargs reader shuffling_queue_capacity"
    ),
    "make_torch_dataloader": _TORCH_LOADER,
    "LocalDiskCache": words("_cache _cleanup _default_settings _path _size_limit_bytes"),
    "NGram": words("_ngram_pass_threshold _validate_ngram"),
    "RandomShufflingBuffer": words(
        "_extra_capacity _min_after_dequeue _shuffling_queue_capacity _size"
    ),
    "SparkDatasetConverter": words("_check_and_set_overriden_petastorm_args"),
    "BatchedDataLoader": words("_batch_acc _shuffling_buffer _yield_batches"),
    "InMemBatchedDataLoader": words("_in_iter"),
    "FilesystemResolver": words("_filesystem_factory _parsed_dataset_url"),
    # The `ParquetDataset` of old pyarrow.
    "dataset": words(
        "common_metadata_path get_row_group_info metadata metadata_path "
        "partitions read read_pandas validate_schemas"
    ),
    "pieces": words("get_metadata open read"),
    # A `ParquetDatasetPiece` in Petastorm, a pyarrow fragment in mdstorm.
    "load_row_groups": words("get_metadata open partition_keys read row_group"),
    # An old pyarrow file system in Petastorm, an fsspec file system in mdstorm.
    **dict.fromkeys(
        _FILE_SYSTEMS,
        words("chown df get_capacity get_space_used is_open pathsep read_parquet"),
    ),
}
#: Attributes with a converter's files, which are MDS shards in mdstorm.
CONVERTER_FILES = frozenset({"cache_dir_url", "file_urls"})
#: What attributes are, objects or what makes them, by the maker of their owner and by name.
ATTRIBUTES: dict[tuple[str, str], str] = {
    **dict.fromkeys(
        [(one, "dataset") for one in ("Reader", "make_batch_reader", "make_reader")],
        "petastorm.reader.Reader.dataset()",
    ),
    ("dataset", "pieces"): "petastorm.reader.Reader.dataset.pieces()",
    **{
        (maker, name): f"petastorm.spark.SparkDatasetConverter.{name}()"
        for maker in ("SparkDatasetConverter", "make_spark_converter")
        for name in CONVERTER_FILES
    },
    ("FilesystemResolver", "filesystem"): "petastorm.fs_utils.FilesystemResolver.filesystem",
}

#: What to use instead of some of these attributes.
INSTEAD: dict[tuple[str, str], str] = {
    ("dataset", "metadata"): "get_schema_from_dataset_url() returns the schema in it",
    ("dataset", "partitions"): "pieces[…].partition_keys has them",
    ("dataset", "read"): "pyarrow.parquet.read_table(dataset.paths) reads it",
    ("dataset", "read_pandas"): "pyarrow.parquet.read_table(dataset.paths) reads it",
    **dict.fromkeys(
        [(one, "read_parquet") for one in _FILE_SYSTEMS],
        "pyarrow.parquet.read_table(path, filesystem=…) reads it",
    ),
    **{(one, "pathsep"): "the separator of paths is `/`" for one in _FILE_SYSTEMS},
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

#: Attributes of readers with names so distinctive that they are reported on any object.
UNMISTAKABLE = words("_results_queue_reader _workers_pool")

_CODEC = (
    "give fields one of Petastorm's codecs, or keep their datasets on Petastorm: "
    "see mdstorm's docs/differences.md#schemas-codecs-and-datasets-of-rows"
)
#: Classes that cannot be subclassed in mdstorm, and what to do instead.
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
#: Subclasses of `RowGroupIndexerBase` that can nevertheless be subclassed.
OPEN = words("FieldNotNullIndexer SingleFieldIndexer")
