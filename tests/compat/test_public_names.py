"""The names that code written for Petastorm imports, and where it imports them from."""

import importlib
import inspect

import pytest

#: Module of Petastorm, without its first part: the names that have a counterpart.
NAMES = {
    "": ["NoDataAvailableError", "TransformSpec", "__version__"],
    ".errors": ["NoDataAvailableError"],
    ".transform": ["TransformSpec", "edit_field"],
    ".spark": ["SparkDatasetConverter", "make_spark_converter", "spark_dataset_converter"],
    ".spark.spark_dataset_converter": [
        "DEFAULT_ROW_GROUP_SIZE_BYTES",
        "SparkDatasetConverter",
        "TFDatasetContextManager",
        "TorchDatasetContextManager",
        "make_spark_converter",
        "register_delete_dir_handler",
    ],
}


@pytest.mark.parametrize("module", NAMES)
def test_names_are_where_petastorm_has_them(module: str) -> None:
    mirror = importlib.import_module(f"mdstorm{module}")
    for name in NAMES[module]:
        assert hasattr(mirror, name)
        assert name in mirror.__all__
    assert sorted(mirror.__all__) == list(mirror.__all__)


def test_sub_modules_are_attributes() -> None:
    import mdstorm

    for name in ("errors", "spark", "transform"):
        assert getattr(mdstorm, name) is importlib.import_module(f"mdstorm.{name}")
    assert {"TransformSpec", "NoDataAvailableError"} <= set(dir(mdstorm))
    with pytest.raises(AttributeError, match="module 'mdstorm' has no attribute 'make_nothing'"):
        _ = mdstorm.make_nothing


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
