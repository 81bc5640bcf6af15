"""The names that code written for Petastorm imports, and where it imports them from."""

import importlib
import inspect
import subprocess
import sys
from types import ModuleType

import pytest

from mdstorm._petastorm_names import ELSEWHERE

#: Module of Petastorm, without its first part: the names that programs import from it.
NAMES = {
    "": [
        "NoDataAvailableError",
        "TransformSpec",
        "__version__",
        "make_batch_reader",
        "make_reader",
    ],
    ".benchmark.cli": ["main"],
    ".benchmark.throughput": [
        "BenchmarkResult",
        "ReadMethod",
        "WorkerPoolType",
        "reader_throughput",
    ],
    ".cache": ["CacheBase", "NullCache"],
    ".codecs": [
        "CompressedImageCodec",
        "CompressedNdarrayCodec",
        "DataframeColumnCodec",
        "NdarrayCodec",
        "ScalarCodec",
    ],
    ".errors": ["NoDataAvailableError"],
    ".etl.dataset_metadata": [
        "PetastormMetadataError",
        "PetastormMetadataGenerationError",
        "ROW_GROUPS_PER_FILE_KEY",
        "UNISCHEMA_KEY",
        "get_schema",
        "get_schema_from_dataset_url",
        "infer_or_load_unischema",
        "load_row_groups",
        "materialize_dataset",
    ],
    ".etl.legacy": ["depickle_legacy_package_name_compatible", "restricted_loads"],
    ".etl.metadata_util": ["main"],
    ".etl.petastorm_generate_metadata": ["generate_petastorm_metadata", "main"],
    ".etl.rowgroup_indexers": ["FieldNotNullIndexer", "SingleFieldIndexer"],
    ".etl.rowgroup_indexing": [
        "ROWGROUPS_INDEX_KEY",
        "PieceInfo",
        "build_rowgroup_index",
        "get_row_group_indexes",
    ],
    ".fs_utils": [
        "FilesystemResolver",
        "get_dataset_path",
        "get_filesystem_and_path_or_paths",
        "normalize_dir_url",
    ],
    ".generator": ["generate_datapoint"],
    ".local_disk_cache": ["LocalDiskCache"],
    ".ngram": ["NGram"],
    ".predicates": [
        "PredicateBase",
        "in_intersection",
        "in_lambda",
        "in_negate",
        "in_pseudorandom_split",
        "in_reduce",
        "in_set",
    ],
    ".pytorch": [
        "BatchedDataLoader",
        "DataLoader",
        "InMemBatchedDataLoader",
        "LoaderBase",
        "decimal_friendly_collate",
    ],
    ".reader": [
        "LOCAL_DISK_CACHE",
        "NULL_CACHE",
        "Reader",
        "make_batch_reader",
        "make_reader",
        "normalize_dataset_url_or_urls",
    ],
    ".reader_impl.arrow_table_serializer": ["ArrowTableSerializer"],
    ".reader_impl.pickle_serializer": ["PickleSerializer"],
    ".reader_impl.pytorch_shuffling_buffer": [
        "BatchedNoopShufflingBuffer",
        "BatchedRandomShufflingBuffer",
        "BatchedShufflingBufferBase",
    ],
    ".reader_impl.shuffling_buffer": [
        "NoopShufflingBuffer",
        "RandomShufflingBuffer",
        "ShufflingBufferBase",
    ],
    ".selectors": [
        "IntersectIndexSelector",
        "RowGroupSelectorBase",
        "SingleIndexSelector",
        "UnionIndexSelector",
    ],
    ".spark": ["SparkDatasetConverter", "make_spark_converter", "spark_dataset_converter"],
    ".spark.spark_dataset_converter": [
        "CachedDataFrameMeta",
        "DEFAULT_ROW_GROUP_SIZE_BYTES",
        "SparkDatasetConverter",
        "TFDatasetContextManager",
        "TorchDatasetContextManager",
        "make_spark_converter",
        "register_delete_dir_handler",
    ],
    ".spark_utils": ["dataset_as_rdd"],
    ".test_util.reader_mock": ["ReaderMock", "schema_data_generator_example"],
    ".tf_utils": [
        "RANDOM_SHUFFLING_QUEUE_SIZE",
        "date_to_nsec_from_epoch",
        "make_namedtuple_tf_ngram",
        "make_petastorm_dataset",
        "tf_tensors",
    ],
    ".tools.copy_dataset": ["args_parser", "copy_dataset", "main"],
    ".tools.spark_session_cli": ["add_configure_spark_arguments", "configure_spark"],
    ".transform": ["TransformSpec", "edit_field", "transform_schema"],
    ".unischema": [
        "Unischema",
        "UnischemaField",
        "dict_to_spark_row",
        "insert_explicit_nulls",
        "match_unischema_fields",
    ],
    ".utils": ["DecodeFieldError", "add_to_dataset_metadata", "decode_row", "run_in_subprocess"],
    ".weighted_sampling_reader": ["WeightedSamplingReader"],
    ".workers_pool.dummy_pool": ["DummyPool"],
    ".workers_pool.process_pool": ["ProcessPool"],
    ".workers_pool.thread_pool": ["ThreadPool"],
}


@pytest.mark.parametrize("module", NAMES)
def test_names_are_where_petastorm_has_them(module: str) -> None:
    mirror = importlib.import_module(f"mdstorm{module}")
    for name in NAMES[module]:
        assert hasattr(mirror, name)
        assert name in mirror.__all__


#: Names with an underscore that programs use, by module.
PRIVATE = {
    ".pytorch": ["_load_rows_into_mem", "_sanitize_pytorch_types"],
    ".tools.copy_dataset": ["_main"],
    ".unischema": [
        "_field_spark_dtype",
        "_numpy_and_codec_from_arrow_type",
        "_numpy_to_spark_mapping",
    ],
}


@pytest.mark.parametrize("module", PRIVATE)
def test_private_names_that_programs_use_are_there_too(module: str) -> None:
    mirror = importlib.import_module(f"mdstorm{module}")
    assert all(hasattr(mirror, name) for name in PRIVATE[module])


@pytest.mark.parametrize("module", ELSEWHERE)
def test_names_that_belong_elsewhere_are_found_where_petastorm_imports_them(module: str) -> None:
    mirror = importlib.import_module(f"mdstorm.{module}")
    for name, home in ELSEWHERE[module].items():
        assert getattr(mirror, name) is getattr(importlib.import_module(f"mdstorm.{home}"), name)


def test_sub_modules_are_attributes() -> None:
    import mdstorm

    for name in {module.split(".")[1] for module in NAMES if module}:
        assert getattr(mdstorm, name) is importlib.import_module(f"mdstorm.{name}")
    assert {"TransformSpec", "NoDataAvailableError"} <= set(dir(mdstorm))
    with pytest.raises(AttributeError, match="module 'mdstorm' has no attribute 'make_nothing'"):
        _ = mdstorm.make_nothing


@pytest.mark.parametrize("module", [module for module in NAMES if module.count(".") == 2])
def test_modules_of_packages_need_no_import(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    package, _, name = f"mdstorm{module}".rpartition(".")
    mirror, parent = importlib.import_module(f"mdstorm{module}"), importlib.import_module(package)
    monkeypatch.delattr(parent, name)  # as before the first import
    assert getattr(parent, name) is mirror
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'nothing'"):
        _ = parent.nothing


@pytest.mark.parametrize("name", ["mdstorm", "petastorm"])
def test_a_program_that_imports_the_package_alone_finds_all_that_petastorm_has_then(
    name: str,
) -> None:
    install = "import mdstorm; mdstorm.install_as_petastorm()" if name == "petastorm" else ""
    paths = [
        "etl.dataset_metadata.materialize_dataset",
        "etl.rowgroup_indexing.build_rowgroup_index",
        "etl.legacy.restricted_loads",
        "reader_impl.pickle_serializer.PickleSerializer",
        "workers_pool.thread_pool.ThreadPool",
        "local_disk_cache.LocalDiskCache",
    ]
    program = "\n".join([install, f"import {name}", *(f"{name}.{path}" for path in paths)])
    subprocess.run([sys.executable, "-c", program], check=True)


def test_names_are_listed_where_a_mock_stands_for_a_framework(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import mdstorm

    monkeypatch.setitem(sys.modules, "tensorflow", ModuleType("tensorflow"))
    assert "tf_utils" in dir(mdstorm)


def test_the_default_row_group_size_is_that_of_petastorm() -> None:
    from mdstorm.spark import spark_dataset_converter

    assert spark_dataset_converter.DEFAULT_ROW_GROUP_SIZE_BYTES == 33554432


def parameters(function: object) -> dict[str, object]:
    found = inspect.signature(function).parameters.values()  # type: ignore[arg-type]
    return {p.name: p.default for p in found if p.kind is p.POSITIONAL_OR_KEYWORD}


def test_signatures_are_those_of_petastorm() -> None:
    from mdstorm.spark import SparkDatasetConverter, make_spark_converter

    empty = inspect.Parameter.empty
    assert parameters(make_spark_converter) == {
        "df": empty,
        "parquet_row_group_size_bytes": 33554432,
        "compression_codec": None,
        "dtype": "float32",
    }
    assert parameters(SparkDatasetConverter.__init__) == {
        "self": empty,
        "cache_dir_url": empty,
        "file_urls": empty,
        "dataset_size": empty,
    }
    assert parameters(SparkDatasetConverter.make_tf_dataset) == {
        "self": empty,
        "batch_size": None,
        "prefetch": None,
        "num_epochs": None,
        "workers_count": None,
        "shuffling_queue_capacity": None,
    }
    assert parameters(SparkDatasetConverter.make_torch_dataloader) == {
        "self": empty,
        "batch_size": 32,
        "num_epochs": None,
        "workers_count": None,
        "shuffling_queue_capacity": 0,
        "data_loader_fn": None,
    }
