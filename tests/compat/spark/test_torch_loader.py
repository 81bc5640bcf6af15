"""`make_torch_dataloader`: what kind of object it returns and how it behaves."""

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.compat.spark.converters import IN_ORDER, converter_of
from tests.mds_backend.small_datasets import array_of

from mdstorm.spark import SparkDatasetConverter


@pytest.fixture
def mixed(tmp_path: Path) -> SparkDatasetConverter:
    """Columns of several kinds, in an order that is not alphabetical."""
    columns = {
        "weight": [0.5, 1.5, 2.5],
        "flag": [True, False, True],
        "pair": [[1, 2], [3, 4], [5, 6]],
        "name": ["a", "b", "c"],
    }
    fields = {"weight": "double", "flag": "boolean", "pair": array_of("integer"), "name": "string"}
    return converter_of(tmp_path / "mixed", columns, fields, dtype="float32")


def test_a_batch_is_a_dict_of_tensors_in_the_order_of_the_frame(
    mixed: SparkDatasetConverter,
) -> None:
    with mixed.make_torch_dataloader(**IN_ORDER) as loader:
        (batch,) = loader
    assert type(batch) is dict
    assert list(batch) == ["weight", "flag", "pair", "name"]
    assert torch.equal(batch["weight"], torch.tensor([0.5, 1.5, 2.5], dtype=torch.float32))
    assert torch.equal(batch["flag"], torch.tensor([1, 0, 1], dtype=torch.uint8))
    assert torch.equal(batch["pair"], torch.tensor([[1, 2], [3, 4], [5, 6]], dtype=torch.int32))
    assert batch["name"] == ["a", "b", "c"]


def numbers(batches: Iterable[Any]) -> list[list[int]]:
    return [batch["number"].tolist() for batch in batches]


TWO_EPOCHS: dict[str, Any] = {"batch_size": 4, "num_epochs": 2, "shuffle_rows": True}


@pytest.mark.parametrize("taken", range(5))
def test_a_state_continues_where_it_was_taken(ten: SparkDatasetConverter, taken: int) -> None:
    first = ten.make_torch_dataloader(seed=3, **TWO_EPOCHS)
    seen = numbers(islice(iter(first), taken))
    second = ten.make_torch_dataloader(seed=8, **TWO_EPOCHS)
    second.load_state_dict(first.state_dict())
    assert seen + numbers(second) == numbers(ten.make_torch_dataloader(seed=3, **TWO_EPOCHS))


def test_positional_arguments_are_those_of_petastorm(ten: SparkDatasetConverter) -> None:
    loader = ten.make_torch_dataloader(5, 1, 2, 0, None, shuffle_row_groups=False)
    assert [batch["number"].tolist() for batch in loader] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
