"""Petastorm's reader arguments: which take effect, which are ignored, and which raise errors."""

import re
import warnings
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.kit.small_datasets import array_of, map_of, struct_of
from tests.unit.compat.spark.converters import IN_ORDER, Read, converter_of, with_either

from mdstorm.spark import SparkDatasetConverter


def test_dataset_url_as_loader_argument_raises_error(ten: SparkDatasetConverter) -> None:
    for make in (ten.make_torch_dataloader, ten.make_tf_dataset):
        for name in ("dataset_url_or_urls", "dataset_url"):
            with pytest.raises(TypeError, match=f"got multiple values for argument '{name}'"):
                make(**{name: "file:///elsewhere"})


@with_either
def test_arguments_without_effect_are_accepted(ten: SparkDatasetConverter, read: Read) -> None:
    batches = read(
        ten,
        batch_size=10,
        workers_count=3,
        reader_pool_type="dummy",
        results_queue_size=7,
        cache_type="null",
        cache_location="/nowhere",
        cache_size_limit=1,
        cache_row_size_estimate=1,
        cache_extra_settings={"eviction_policy": "none"},
        hdfs_driver="libhdfs",
        zmq_copy_buffers=False,
        convert_early_to_numpy=True,
        shuffle_row_drop_partitions=1,
        filters=None,
        filesystem=None,
        storage_options=None,
        predicate=None,
        rowgroup_selector=None,
        schema_fields=None,
        transform_spec=None,
        **IN_ORDER,
    )
    assert batches == [{"number": list(range(10))}]


@pytest.fixture
def wide(tmp_path: Path) -> SparkDatasetConverter:
    """A converter with plain and nested columns."""
    columns = {
        "zeta": [1],
        "alpha": [2.0],
        "alpha_2": [3],
        "words": [["a"]],
        "struct": [{"a": 1}],
        "map": [[("k", 1)]],
        "deep": [[{"a": 1}]],
    }
    fields = {
        "zeta": "long",
        "alpha": "double",
        "alpha_2": "integer",
        "words": array_of("string"),
        "struct": struct_of(a="long"),
        "map": map_of("string", "long"),
        "deep": array_of(struct_of(a="long")),
    }
    return converter_of(tmp_path / "wide", columns, fields)


@with_either
def test_nested_columns_are_omitted_with_a_warning(wide: SparkDatasetConverter, read: Read) -> None:
    with pytest.warns(UserWarning, match="has an unsupported field") as caught:
        (batch,) = read(wide, num_epochs=1)
    assert list(batch) == ["zeta", "alpha", "alpha_2", "words"]
    text = " ".join(str(warning.message) for warning in caught)
    assert re.findall(r"Column '(\w+)'", text) == ["struct", "map", "deep"]


def test_omitted_nested_column_warns_only_once(wide: SparkDatasetConverter) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        next(iter(wide.make_torch_dataloader(num_epochs=1)))
        next(iter(wide.make_torch_dataloader(num_epochs=1)))
        fields = ["struct", "map", "deep"]
        (batch,) = wide.make_torch_dataloader(num_epochs=1, schema_fields=fields)
    assert len(caught) == 3  # one per column
    assert batch == {"struct": [{"a": 1}], "map": [[("k", 1)]], "deep": [[{"a": 1}]]}


@pytest.mark.matrix
@with_either
@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (["alpha_2", "zeta"], ["zeta", "alpha_2"]),
        (["alpha.*"], ["alpha", "alpha_2"]),
        (("zeta", "none such"), ["zeta"]),
        ({"zeta": 1}, ["zeta"]),
        ([SimpleNamespace(name="alpha")], ["alpha"]),
    ],
    ids=str,
)
def test_schema_fields_accept_names_patterns_and_fields(
    wide: SparkDatasetConverter, read: Read, fields: Any, expected: list[str]
) -> None:
    (batch,) = read(wide, num_epochs=1, schema_fields=fields)
    assert list(batch) == expected
