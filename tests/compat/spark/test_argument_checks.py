"""Wrong arguments are reported by the call itself, before any file is opened."""

from typing import Any

import numpy as np
import pytest

from mdstorm.errors import ArgumentTypeError, InvalidArgumentError, NoMatchingFieldsError
from mdstorm.spark import SparkDatasetConverter

NOWHERE = SparkDatasetConverter("file:///nowhere", ["file:///nowhere/part.mds"], 10)


@pytest.mark.parametrize("method", ["make_torch_dataloader", "make_tf_dataset"])
@pytest.mark.parametrize(
    "arguments",
    [
        {"workers_count": 0},
        {"workers_count": 2.5},
        {"workers_count": "2"},
        {"shuffling_queue_capacity": 2.5},
        {"shuffling_queue_capacity": "2"},
        {"seed": -1},
        {"seed": 1.5},
        {"seed": "abc"},
        {"schema_fields": ["("]},
        {"schema_fields": [3]},
        {"num_epochs": 0},
        {"reader_pool_type": "fibre"},
    ],
    ids=str,
)
def test_a_value_outside_of_its_domain_is_refused(method: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgumentError):
        getattr(NOWHERE, method)(**arguments)


def test_a_text_is_no_list_of_fields() -> None:
    with pytest.raises(NoMatchingFieldsError, match="put it in a list"):
        NOWHERE.make_torch_dataloader(schema_fields="id")


@pytest.mark.parametrize("method", ["make_torch_dataloader", "make_tf_dataset"])
@pytest.mark.parametrize(
    "arguments", [{"fill_nulls": [1]}, {"null_masks": "id"}, {"transform_spec": len}], ids=str
)
def test_a_value_of_a_wrong_type_is_refused(method: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(ArgumentTypeError):
        getattr(NOWHERE, method)(**arguments)


def test_numpy_integers_are_integers(ten: SparkDatasetConverter) -> None:
    with ten.make_torch_dataloader(
        batch_size=np.int64(4),  # type: ignore[arg-type]
        num_epochs=np.int64(1),  # type: ignore[arg-type]
        workers_count=np.int32(2),  # type: ignore[arg-type]
        shuffling_queue_capacity=np.int64(20),  # type: ignore[arg-type]
        seed=np.int64(5),
    ) as loader:
        numbers = [n for batch in loader for n in batch["number"].tolist()]
    assert sorted(numbers) == list(range(10))


def test_files_of_another_dataset_are_refused(ten: SparkDatasetConverter) -> None:
    url = f"{ten.cache_dir_url}/part-1-2.00000.mds"
    for urls, text in [([ten.file_urls[0], url], "is none of the .* shards"), ([], "is empty")]:
        other = SparkDatasetConverter(ten.cache_dir_url, urls, 5)
        with pytest.raises(InvalidArgumentError, match=text):
            other.make_torch_dataloader().__enter__()
        with pytest.raises(InvalidArgumentError, match=text):
            other.make_tf_dataset()
