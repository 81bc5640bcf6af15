"""Petastorm's names: where mdstorm defines them, and which ones mdstorm does not provide."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any, TypeVar

from mdstorm_backend.drop_in import AbsentNames

#: Names that a Petastorm module imports for its own use, but that programs also import from it.
#: Maps module and name to the module that defines the name.
ELSEWHERE: dict[str, dict[str, str]] = {
    "etl.dataset_metadata": {
        "FilesystemResolver": "fs_utils",
        "Unischema": "unischema",
        "get_dataset_path": "fs_utils",
        "get_filesystem_and_path_or_paths": "fs_utils",
    },
    "pytorch": {
        "NoopShufflingBuffer": "reader_impl.shuffling_buffer",
        "RandomShufflingBuffer": "reader_impl.shuffling_buffer",
    },
    "reader": {
        "LocalDiskCache": "local_disk_cache",
        "NGram": "ngram",
        "NoDataAvailableError": "errors",
        "NullCache": "cache",
        "PetastormMetadataError": "etl.dataset_metadata",
        "PredicateBase": "predicates",
        "RowGroupSelectorBase": "selectors",
        "get_filesystem_and_path_or_paths": "fs_utils",
        "infer_or_load_unischema": "etl.dataset_metadata",
        "normalize_dir_url": "fs_utils",
        "transform_schema": "transform",
    },
    "spark.spark_dataset_converter": {"make_batch_reader": "reader"},
}

#: Anchor of a section in docs/differences.md → the names under ``petastorm`` that it covers.
SECTIONS: dict[str, tuple[str, ...]] = {
    "workers-and-their-queues": (
        "arrow_reader_worker",
        "py_dict_reader_worker",
        "pyarrow_helpers",
        "reader.ArrowReaderWorker",
        "reader.ArrowTableSerializer",
        "reader.ConcurrentVentilator",
        "reader.DummyPool",
        "reader.PickleSerializer",
        "reader.ProcessPool",
        "reader.PyDictReaderWorker",
        "reader.ThreadPool",
        "reader_impl.arrow_table_serializer",
        "reader_impl.pickle_serializer",
        "workers_pool",
    ),
    "name-nodes-of-hdfs": ("fs_utils.HdfsConnector", "fs_utils.HdfsNamenodeResolver", "hdfs"),
    "steps-of-materialize_dataset": (
        "etl.dataset_metadata._cleanup_spark",
        "etl.dataset_metadata._generate_num_row_groups_per_file",
        "etl.dataset_metadata._generate_unischema_metadata",
        "etl.dataset_metadata._init_spark",
        "etl.dataset_metadata._split_piece",
        "etl.dataset_metadata._split_row_groups",
        "etl.dataset_metadata._split_row_groups_from_footers",
    ),
    "buffers-of-batches": (
        "pytorch.BatchedNoopShufflingBuffer",
        "pytorch.BatchedRandomShufflingBuffer",
        "reader_impl.pytorch_shuffling_buffer",
    ),
    "unpicklers": ("etl.legacy",),
    "types-of-rows": (
        "namedtuple_gt_255_fields",
        "unischema._NamedtupleCache",
        "unischema._UNISCHEMA_FIELD_ORDER",
        "unischema._new_gt_255_compatible_namedtuple",
    ),
    "conversions-for-tensorflow": (
        "tf_utils._numpy_to_tf_dtypes",
        "tf_utils._sanitize_field_tf_types",
        "tf_utils._schema_to_tf_dtypes",
    ),
    "steps-of-the-converter": (
        "spark.spark_dataset_converter.CachedDataFrameMeta",
        "spark.spark_dataset_converter._cache_df_meta_list",
        "spark.spark_dataset_converter._convert_precision",
        "spark.spark_dataset_converter._convert_vector",
        "spark.spark_dataset_converter._get_horovod_rank_and_size",
        "spark.spark_dataset_converter._get_parent_cache_dir_url",
        "spark.spark_dataset_converter._materialize_df",
        "spark.spark_dataset_converter._wait_file_available",
    ),
    "modules-of-older-versions": ("compat", "gcsfs_helpers", "shuffle_options"),
    "tools-and-benchmarks": ("benchmark", "etl.metadata_util", "tools"),
    "tests-and-their-helpers": ("generator", "test_util", "tests"),
}

#: Names that users often look for in the wrong module, by the module that defines them.
_HOMES = {
    "mdstorm.pytorch": ("BatchedDataLoader", "DataLoader"),
    "mdstorm.spark": ("SparkDatasetConverter", "make_spark_converter"),
    "mdstorm.unischema": ("Unischema", "UnischemaField", "dict_to_spark_row"),
    "mdstorm_backend": ("MDSWriter", "StreamingDataLoader", "StreamingDataset", "open_dataset"),
}

#: The names that mdstorm does not provide, and the page that documents them.
ABSENT = AbsentNames(
    "petastorm",
    "mdstorm",
    "docs/differences.md",
    SECTIONS,
    {name: module for module, names in _HOMES.items() for name in names},
)
_Defined = TypeVar("_Defined", bound=Any)


def is_module(package: str, name: str) -> bool:
    """Whether a package has a public module with this name."""
    is_package = "__path__" in vars(sys.modules[package])
    return is_package and name[0] != "_" and find_spec(f"{package}.{name}") is not None


def other_names(module: str) -> Callable[[str], Any]:
    """Return a module's ``__getattr__``, which looks up names in other modules.

    For a package, it also finds submodules. Petastorm's packages import most of their submodules,
    so programs use ``petastorm.etl.dataset_metadata`` after ``import petastorm``.

    Parameters
    ----------
    module : str
        ``__name__`` of the module.
    """
    homes = ELSEWHERE.get(module.removeprefix("mdstorm."), {})

    def get(name: str) -> Any:
        if name in homes:
            return getattr(importlib.import_module(f"mdstorm.{homes[name]}"), name)
        if is_module(module, name):
            return importlib.import_module(f"{module}.{name}")
        raise ABSENT.error(module, name, sys._getframe(1))

    return get


def public(module: str) -> Callable[[_Defined], _Defined]:
    """Set the module name of a decorated class or function to `module`, which re-exports it.

    Pickles, messages and documentation then show the name that users import, and stay valid when
    the definition moves.
    """

    def name_home(defined: _Defined) -> _Defined:
        defined.__module__ = module
        return defined

    return name_home
