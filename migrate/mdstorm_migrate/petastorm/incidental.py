"""Names that a star import from Petastorm exposes although they are not its own.

``from petastorm.unischema import *`` gives ``np``, too. The names that people import from there on
purpose, as `mdstorm_migrate.petastorm.names.HOMES` has them, are added.
"""

from __future__ import annotations

from mdstorm_migrate.petastorm.names import HOMES, words

_INCIDENTAL: dict[str, frozenset[str]] = {
    module: words(names)
    for module, names in {
        "petastorm": "arrow_reader_worker hdfs py_dict_reader_worker reader_impl workers_pool",
        "petastorm.cache": "abc six",
        "petastorm.codecs": "BytesIO OPENCV_AVAILABLE abstractmethod cv2 np",
        "petastorm.etl": "abc legacy six",
        "petastorm.etl.dataset_metadata": (
            "attrgetter contextmanager futures json logger logging os pickle pq urlparse utils "
            "version"
        ),
        "petastorm.etl.petastorm_generate_metadata": (
            "ROWGROUPS_INDEX_KEY ROW_GROUPS_PER_FILE_KEY SparkSession argparse locate pq sys"
        ),
        "petastorm.etl.rowgroup_indexers": "defaultdict np",
        "petastorm.etl.rowgroup_indexing": (
            "PARALLEL_SLICE_NUM dataset_metadata logger logging namedtuple pickle pq time utils"
        ),
        "petastorm.fs_utils": (
            "HdfsConnector HdfsNamenodeResolver fsspec logger logging pyarrow six strip_protocol "
            "update_storage_options urlparse urlunparse"
        ),
        "petastorm.generator": "LIST_SIZE np rand",
        "petastorm.local_disk_cache": "FanoutCache pickle shutil",
        "petastorm.ngram": "numbers string_types",
        "petastorm.predicates": "abc collections hashlib np six sys",
        "petastorm.pytorch": (
            "PY2 collections decimal default_collate logger logging np re torch version"
        ),
        "petastorm.reader": (
            "ArrowReaderWorker ConcurrentVentilator PyDictReaderWorker collections "
            "dataset_metadata logger logging pq rowgroup_indexing six warnings"
        ),
        "petastorm.selectors": "abc six",
        "petastorm.spark.spark_dataset_converter": (
            "Any ArrayType DoubleType FloatType List LocalFileSystem LooseVersion SparkSession "
            "ThreadPool atexit datetime logger logging os pyspark shutil strip_protocol threading "
            "time urlparse uuid vector_to_array"
        ),
        "petastorm.spark_utils": "urlparse utils",
        "petastorm.test_util.reader_mock": "Decimal np",
        "petastorm.tf_utils": ("Decimal OrderedDict datetime namedtuple np sys tf timegm warnings"),
        "petastorm.transform": "warnings",
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
    """Return what a star import from a module of Petastorm may give by accident."""
    return _INCIDENTAL.get(module, frozenset()).union(HOMES.get(module, ()))
