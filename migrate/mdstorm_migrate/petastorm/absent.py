"""Names in Petastorm 0.13.1 that mdstorm does not have.

They are the names that Petastorm's modules define or import at their top level, apart from those in
`names` and `_INCIDENTAL`. Reports advise keeping Petastorm only for names that Petastorm has.
"""

from __future__ import annotations

from mdstorm_migrate.petastorm.names import DATA, HOMES, OLD_ROOT, PUBLIC, words

_MODULE_NAMES = (
    "arrow_reader_worker benchmark etl.legacy etl.metadata_util generator hdfs hdfs.tests "
    "namedtuple_gt_255_fields py_dict_reader_worker pyarrow_helpers "
    "reader_impl.arrow_table_serializer reader_impl.pickle_serializer "
    "reader_impl.pytorch_shuffling_buffer test_util tests tools workers_pool"
)
#: Modules and packages that mdstorm does not have.
_MODULES = frozenset(f"petastorm.{name}" for name in _MODULE_NAMES.split())
#: Names that mdstorm does not have, by module.
_NAMES: dict[str, frozenset[str]] = {
    module: words(names)
    for module, names in {
        "petastorm.codecs": "_is_compliant_shape",
        "petastorm.etl.dataset_metadata": (
            "_cleanup_spark _generate_num_row_groups_per_file _generate_unischema_metadata "
            "_init_spark _split_piece _split_row_groups _split_row_groups_from_footers"
        ),
        "petastorm.etl.petastorm_generate_metadata": "_main example_text",
        "petastorm.etl.rowgroup_indexing": "_combine_indexers _index_columns range",
        "petastorm.predicates": "_string_to_bucket",
        "petastorm.pytorch": "_PARALLEL_ITER_ERROR _TORCH_BEFORE_1_1 _string_classes",
        "petastorm.reader": "_VENTILATE_EXTRA_ROWGROUPS",
        "petastorm.reader_impl.shuffling_buffer": "abc deque np six",
        "petastorm.spark.spark_dataset_converter": (
            "CachedDataFrameMeta "
            "_FILE_AVAILABILITY_WAIT_TIMEOUT_SECS _cache_df_meta_list _cache_df_meta_list_lock "
            "_cache_df_or_retrieve_cache_data_url _check_dataset_file_median_size "
            "_check_parent_cache_dir_url _check_rank_and_size_consistent_with_horovod _check_url "
            "_convert_precision _convert_vector _default_delete_dir_handler "
            "_delete_cache_data_atexit _delete_dir_handler _gen_cache_dir_name _get_df_plan "
            "_get_horovod_rank_and_size _get_parent_cache_dir_url _get_spark_session "
            "_is_spark_local_mode _make_sub_dir_url _materialize_df "
            "_normalize_databricks_dbfs_url _parent_cache_dir_url _remove_cache_metadata_and_data "
            "_wait_file_available"
        ),
        "petastorm.tf_utils": (
            "_NUMPY_TO_TF_DTYPES_MAPPING _RESET_READER_WARN _date_to_nsec_from_epoch_vectorized "
            "_flatten _ngrams_generator _numpy_to_tf_dtypes _sanitize_and_flatten "
            "_sanitize_field_tf_types _schema_to_tf_dtypes _schema_to_tf_dtypes_ngram _set_shape "
            "_set_shape_to_named_tuple _shuffling_queue _tf_tensors_ngram _tf_tensors_nonngram "
            "_unflatten_and_set_shape"
        ),
        "petastorm.unischema": (
            "_NamedtupleCache _UNISCHEMA_FIELD_ORDER _fields_as_tuple _fullmatch "
            "_new_gt_255_compatible_namedtuple"
        ),
    }.items()
}


def is_unknown(path: str) -> bool:
    """Whether a dotted path that mdstorm does not have is also unknown to Petastorm."""
    module, _, name = path.rpartition(".")
    if module not in PUBLIC or path in {*_MODULES, *_SECTION_OF} or name.startswith("__"):
        return False
    return name not in _NAMES.get(module, ()) and name not in incidental_of(module)


def home_of(name: str) -> str | None:
    """Return the mirrored Petastorm module that offers a name, or None if several or none do.

    If the package itself offers the name, it is returned, no matter which of its modules also do.
    """
    homes = [module for module, names in PUBLIC.items() if name in names]
    return homes[0] if len(homes) == 1 or OLD_ROOT in homes else None


#: Names in ``petastorm``, by the anchor of the section of docs/differences.md that covers them.
SECTIONS: dict[str, frozenset[str]] = {
    section: frozenset(names) for section, names in DATA["sections_of_absent_names"].items()
}

_SECTION_OF = {
    f"petastorm.{name}": section for section, names in SECTIONS.items() for name in names
}


def section_of(path: str) -> str | None:
    """Return the page and anchor about a path in ``petastorm``, or None if no page covers it."""
    parts = path.split(".")
    for stop in range(len(parts), 1, -1):
        section = _SECTION_OF.get(".".join(parts[:stop]))
        if section is not None:
            return f"docs/differences.md#{section}"
    return None


_INCIDENTAL: dict[str, frozenset[str]] = {
    module: words(names)
    for module, names in {
        "petastorm": (
            "arrow_reader_worker cache errors etl fs_utils hdfs local_disk_cache ngram predicates "
            "py_dict_reader_worker reader reader_impl selectors transform unischema utils "
            "workers_pool"
        ),
        "petastorm.cache": "abc six",
        "petastorm.codecs": "BytesIO OPENCV_AVAILABLE abstractmethod cv2 np",
        "petastorm.etl": "abc dataset_metadata legacy rowgroup_indexing six",
        "petastorm.etl.dataset_metadata": (
            "attrgetter contextmanager depickle_legacy_package_name_compatible futures json logger "
            "logging os pickle pq urlparse utils "
            "version"
        ),
        "petastorm.etl.petastorm_generate_metadata": (
            "FilesystemResolver ROWGROUPS_INDEX_KEY ROW_GROUPS_PER_FILE_KEY SparkSession Unischema "
            "add_to_dataset_metadata argparse example_text get_schema locate materialize_dataset "
            "pq sys"
        ),
        "petastorm.etl.rowgroup_indexers": "RowGroupIndexerBase defaultdict np",
        "petastorm.etl.rowgroup_indexing": (
            "FilesystemResolver PARALLEL_SLICE_NUM dataset_metadata "
            "depickle_legacy_package_name_compatible logger logging namedtuple pickle pq range "
            "time utils"
        ),
        "petastorm.fs_utils": (
            "HdfsConnector HdfsNamenodeResolver fsspec logger logging pyarrow six strip_protocol "
            "update_storage_options urlparse urlunparse"
        ),
        "petastorm.local_disk_cache": "CacheBase FanoutCache pickle shutil",
        "petastorm.ngram": "UnischemaField match_unischema_fields numbers string_types",
        "petastorm.predicates": "abc collections hashlib np six sys",
        "petastorm.pytorch": (
            "BatchedNoopShufflingBuffer BatchedRandomShufflingBuffer PY2 collections decimal "
            "default_collate logger logging np re torch version"
        ),
        "petastorm.reader": (
            "ArrowReaderWorker ArrowTableSerializer ConcurrentVentilator DummyPool "
            "PickleSerializer ProcessPool PyDictReaderWorker ThreadPool collections "
            "dataset_metadata logger logging pq rowgroup_indexing six warnings"
        ),
        "petastorm.reader_impl": "arrow_table_serializer pickle_serializer",
        "petastorm.reader_impl.shuffling_buffer": "abc deque np six",
        "petastorm.selectors": "abc six",
        "petastorm.spark": "spark_dataset_converter",
        "petastorm.spark.spark_dataset_converter": (
            "Any ArrayType CachedDataFrameMeta DoubleType FilesystemResolver FloatType List "
            "LocalFileSystem LooseVersion SparkSession ThreadPool atexit datetime "
            "get_filesystem_and_path_or_paths logger logging normalize_dir_url os pyspark shutil "
            "strip_protocol threading time urlparse uuid vector_to_array"
        ),
        "petastorm.spark_utils": "FilesystemResolver get_schema_from_dataset_url urlparse utils",
        "petastorm.tf_utils": ("Decimal OrderedDict datetime namedtuple np sys tf timegm warnings"),
        "petastorm.transform": "Unischema UnischemaField warnings",
        "petastorm.unischema": (
            "Any Decimal Dict ListType NamedTuple Optional OrderedDict Tuple copy namedtuple np pa "
            "pyStructType re six string_types sys warnings"
        ),
        "petastorm.utils": (
            "Decimal LocalFileSystem Pool logger logging np os pyarrow raise_with_traceback"
        ),
        "petastorm.weighted_sampling_reader": "np",
    }.items()
}


def incidental_of(module: str) -> frozenset[str]:
    """Return the names that a star import leaks from a Petastorm module."""
    return _INCIDENTAL.get(module, frozenset()).union(HOMES.get(module, ()))


#: The names that star imports leak from any of Petastorm's modules.
INCIDENTAL = frozenset().union(*_INCIDENTAL.values())
