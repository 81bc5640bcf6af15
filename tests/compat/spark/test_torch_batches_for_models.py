"""What `make_torch_dataloader` makes of batches for a model: `features`, `batch_map`, `device`."""

from collections import Counter
from itertools import islice
from typing import Any

import pytest
import torch
from tests.mds_backend.small_datasets import write_dataset

from mdstorm.spark import SparkDatasetConverter

ROWS = 53


@pytest.fixture(scope="module")
def converter(tmp_path_factory: pytest.TempPathFactory) -> SparkDatasetConverter:
    columns = {
        "a": [float(n) for n in range(ROWS)],
        "b": [2.0 * n for n in range(ROWS)],
        "label": list(range(ROWS)),
        "weight": [0.5] * ROWS,
        "text": [str(n) for n in range(ROWS)],
    }
    fields = {"a": "float", "b": "float", "label": "long", "weight": "double", "text": "string"}
    dataset = write_dataset(tmp_path_factory.mktemp("data") / "data", columns, fields)
    return SparkDatasetConverter(dataset.url, dataset.file_urls, ROWS)


def loader_of(converter: SparkDatasetConverter, **options: Any) -> Any:
    given = {"batch_size": 8, "num_epochs": 1, "shuffle_row_groups": True, "seed": 3, **options}
    return converter.make_torch_dataloader(**given)


@pytest.mark.parametrize("order", ["exact", "elastic"])
def test_named_columns_are_what_the_model_takes(
    converter: SparkDatasetConverter, order: str
) -> None:
    names = {"features": ["b", "a"], "labels": "label", "sample_weights": "weight"}
    loader = loader_of(converter, order=order, **names)
    assert len(loader) == 7
    seen: Counter[int] = Counter()
    for x, y, weight in loader:
        assert list(x) == ["b", "a"]
        assert (x["a"].dtype, y.dtype, weight.dtype) == (torch.float32, torch.int64, torch.float64)
        assert torch.equal(x["b"], 2 * x["a"])
        assert torch.equal(x["a"].long(), y)
        seen.update(y.tolist())
    assert seen == Counter(range(ROWS))


def test_columns_that_are_not_named_are_not_read(converter: SparkDatasetConverter) -> None:
    loader = loader_of(converter, features="a", labels="label")
    assert loader.dataset._mdstorm.options.delivered == ("a", "label")


def test_a_map_makes_anything_of_a_batch(converter: SparkDatasetConverter) -> None:
    def stacked(batch: dict[str, Any]) -> Any:
        return torch.stack([batch["a"], batch["b"]], 1), batch["label"]

    loader = loader_of(converter, batch_map=stacked)
    assert len(loader) == 7
    assert [tuple(x.shape) for x, _ in islice(loader, 2)] == [(8, 2), (8, 2)]
