"""Petastorm's context managers, made by hand and by ``data_loader_fn``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mdstorm.errors import InvalidArgumentError
from mdstorm.spark import SparkDatasetConverter
from mdstorm.spark.spark_dataset_converter import (
    TFDatasetContextManager,
    TorchDatasetContextManager,
)

from tests.compat.spark.converters import converter_of

ONE_PASS = {"num_epochs": 1, "workers_count": 1, "shuffle_row_groups": False}


def test_without_a_function_the_torch_manager_makes_the_default_loader(
    ten: SparkDatasetConverter,
) -> None:
    with TorchDatasetContextManager(ten.file_urls, 4, ONE_PASS, 0, None) as loader:
        assert [len(batch["number"]) for batch in loader] == [4, 4, 2]


def test_the_tf_manager_makes_a_dataset(ten: SparkDatasetConverter) -> None:
    manager = TFDatasetContextManager(ten.file_urls, 4, None, ONE_PASS, None)
    for _ in range(2):
        with manager as dataset:
            assert [len(batch.number) for batch in dataset] == [4, 4, 2]


@pytest.mark.parametrize(
    "make",
    [
        lambda files: TorchDatasetContextManager(files, 4, {}, 0, None),
        lambda files: TFDatasetContextManager(files, 4, None, {}, None),
    ],
    ids=["torch", "tf"],
)
def test_a_manager_needs_files(make: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="at least one shard file"):
        make([])


def test_a_reader_that_is_reset_shuffles_anew(tmp_path: Path) -> None:
    converter = converter_of(tmp_path / "x", {"n": range(200)}, {"n": "long"})
    reading = {"num_epochs": 1, "shuffle_rows": True, "seed": 3}
    with converter.make_torch_dataloader(data_loader_fn=lambda reader, **_: reader, **reading) as r:
        first = [n for item in r for n in item.n.tolist()]
        r.reset()
        second = [n for item in r for n in item.n.tolist()]
    assert sorted(first) == sorted(second) == list(range(200))
    assert first != second


@pytest.mark.parametrize("name", ["a.b", "class", "_x", "two words"])
def test_a_name_that_no_namedtuple_can_have_is_refused_with_a_remedy(
    name: str, tmp_path: Path
) -> None:
    converter = converter_of(tmp_path / "x", {name: range(3)}, {name: "long"})
    with pytest.raises(InvalidArgumentError, match=r"df\.toDF"):
        converter.make_tf_dataset()
    with converter.make_torch_dataloader(batch_size=3, num_epochs=1) as loader:
        assert [batch[name].tolist() for batch in loader] == [[0, 1, 2]]
