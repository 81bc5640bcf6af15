"""Which section of mdstorm's docs/differences.md tells what replaces a name that mdstorm lacks.

The table is a copy of that in mdstorm, which this tool cannot import; a test compares them.
"""

from __future__ import annotations

from mdstorm_migrate.petastorm.names import words

#: Anchor of a section of the page → the names below ``petastorm`` that it is about.
SECTIONS: dict[str, frozenset[str]] = {
    "workers-and-their-queues": words(
        "arrow_reader_worker py_dict_reader_worker pyarrow_helpers reader.ArrowReaderWorker "
        "reader.ConcurrentVentilator reader.PyDictReaderWorker workers_pool.EmptyResultError "
        "workers_pool.TimeoutWaitingForResultError workers_pool.VentilatedItemProcessedMessage "
        "workers_pool.exec_in_new_process workers_pool.exec_in_new_process_entrypoint "
        "workers_pool.ventilator workers_pool.worker_base"
    ),
    "name-nodes-of-hdfs": words("fs_utils.HdfsConnector fs_utils.HdfsNamenodeResolver hdfs"),
    "steps-of-materialize_dataset": words(
        "etl.dataset_metadata._cleanup_spark "
        "etl.dataset_metadata._generate_num_row_groups_per_file "
        "etl.dataset_metadata._generate_unischema_metadata etl.dataset_metadata._init_spark "
        "etl.dataset_metadata._split_piece etl.dataset_metadata._split_row_groups "
        "etl.dataset_metadata._split_row_groups_from_footers"
    ),
    "unpicklers": words("etl.legacy.RestrictedUnpickler"),
    "types-of-rows": words(
        "namedtuple_gt_255_fields unischema._NamedtupleCache unischema._UNISCHEMA_FIELD_ORDER "
        "unischema._new_gt_255_compatible_namedtuple"
    ),
    "conversions-for-tensorflow": words(
        "tf_utils._numpy_to_tf_dtypes tf_utils._sanitize_field_tf_types "
        "tf_utils._schema_to_tf_dtypes"
    ),
    "steps-of-the-converter": words(
        "spark.spark_dataset_converter._cache_df_meta_list "
        "spark.spark_dataset_converter._convert_precision "
        "spark.spark_dataset_converter._convert_vector "
        "spark.spark_dataset_converter._get_horovod_rank_and_size "
        "spark.spark_dataset_converter._get_parent_cache_dir_url "
        "spark.spark_dataset_converter._materialize_df "
        "spark.spark_dataset_converter._wait_file_available"
    ),
    "tests-and-their-helpers": words(
        "benchmark.dummy_reader test_util.shuffling_analysis tests workers_pool.tests"
    ),
}

_SECTION_OF = {
    f"petastorm.{name}": section for section, names in SECTIONS.items() for name in names
}


def section_of(path: str) -> str | None:
    """Return the page and section on a dotted path below ``petastorm``; None if there is none."""
    parts = path.split(".")
    for stop in range(len(parts), 1, -1):
        section = _SECTION_OF.get(".".join(parts[:stop]))
        if section is not None:
            return f"docs/differences.md#{section}"
    return None
