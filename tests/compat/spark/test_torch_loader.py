"""`make_torch_dataloader`: what kind of object it returns and how it behaves."""

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.compat.spark.converters import IN_ORDER, converter_of
from tests.mds_backend.small_datasets import array_of

from mdstorm.errors import DatasetNotFoundError, StateMismatchError
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


def test_tensors_are_writable_and_no_two_batches_share_elements(ten: SparkDatasetConverter) -> None:
    loader = ten.make_torch_dataloader(batch_size=3, **IN_ORDER)
    batches = []
    for batch in loader:
        batch["number"] += 100
        batches.append(batch["number"])
    assert torch.cat(batches).tolist() == list(range(100, 110))


def test_a_batch_trains_a_model(mixed: SparkDatasetConverter) -> None:
    model = torch.nn.Linear(2, 1)
    loss = torch.zeros(())
    with mixed.make_torch_dataloader(batch_size=2, num_epochs=3) as loader:
        for batch in loader:
            target = batch["weight"].unsqueeze(1)
            loss = torch.nn.functional.mse_loss(model(batch["pair"].float()), target)
            loss.backward()
    assert loss.item() > 0
    assert model.weight.grad is not None


def test_it_is_a_data_loader_of_the_batch_size_asked_for(ten: SparkDatasetConverter) -> None:
    loader = ten.make_torch_dataloader(batch_size=4, num_epochs=2)
    assert isinstance(loader, torch.utils.data.DataLoader)
    assert loader.batch_size == 4


@pytest.mark.parametrize(
    ("num_epochs", "batch_size", "batches"), [(1, 4, 3), (2, 4, 5), (1, 10, 1), (3, 7, 5)]
)
def test_its_length_counts_batches(
    ten: SparkDatasetConverter, num_epochs: int, batch_size: int, batches: int
) -> None:
    loader = ten.make_torch_dataloader(batch_size=batch_size, num_epochs=num_epochs)
    assert len(loader) == batches == len(list(loader))


def test_an_endless_loader_has_no_length(ten: SparkDatasetConverter) -> None:
    with pytest.raises(TypeError, match="num_epochs=None never ends"):
        len(ten.make_torch_dataloader())


def test_nothing_is_opened_before_it_is_entered(tmp_path: Path) -> None:
    gone = SparkDatasetConverter(f"file://{tmp_path}/gone", [], 10)
    loader = gone.make_torch_dataloader()
    with pytest.raises(DatasetNotFoundError, match="there is no dataset at") as caught:
        loader.__enter__()
    assert isinstance(caught.value, RuntimeError)
    assert isinstance(caught.value, FileNotFoundError)
    with pytest.raises(DatasetNotFoundError):
        next(iter(gone.make_torch_dataloader()))


def test_an_error_inside_of_the_context_comes_out(ten: SparkDatasetConverter) -> None:
    with pytest.raises(ZeroDivisionError), ten.make_torch_dataloader(batch_size=2) as loader:
        next(1 // 0 for _ in loader)


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


def test_a_state_of_a_whole_pass_begins_the_next(ten: SparkDatasetConverter) -> None:
    first = ten.make_torch_dataloader(seed=3, **TWO_EPOCHS)
    passes = [numbers(first)]
    state = first.state_dict()
    passes.append(numbers(first))
    second = ten.make_torch_dataloader(seed=8, **TWO_EPOCHS)
    second.load_state_dict(state)
    assert numbers(second) == passes[1]
    assert passes[0] != passes[1]


def test_a_state_of_another_dataset_is_refused(
    ten: SparkDatasetConverter, mixed: SparkDatasetConverter
) -> None:
    state = ten.make_torch_dataloader().state_dict()
    with pytest.raises(StateMismatchError, match="another dataset"):
        mixed.make_torch_dataloader().load_state_dict(state)


def test_samples_yielded_are_counted(ten: SparkDatasetConverter) -> None:
    loader = ten.make_torch_dataloader(batch_size=4, **IN_ORDER)
    assert [loader.num_samples_yielded for _ in loader] == [4, 8, 10]


def test_positional_arguments_are_those_of_petastorm(ten: SparkDatasetConverter) -> None:
    loader = ten.make_torch_dataloader(5, 1, 2, 0, None, shuffle_row_groups=False)
    assert [batch["number"].tolist() for batch in loader] == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]
