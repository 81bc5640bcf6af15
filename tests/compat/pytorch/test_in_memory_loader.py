"""`InMemBatchedDataLoader`: rows that are read once and kept."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.compat.readers import batch_reader, numbers, write_parquet

from mdstorm.errors import ArgumentTypeError, InvalidArgumentError
from mdstorm.pytorch import InMemBatchedDataLoader


def test_the_reader_is_stopped_at_once(ten: str) -> None:
    reader = batch_reader(ten)
    with InMemBatchedDataLoader(reader) as loader:
        assert reader.stopped
    assert len(list(loader)) == 10


def test_another_iteration_goes_on_with_other_permutations(ten: str) -> None:
    def make(num_epochs: int) -> Any:
        return InMemBatchedDataLoader(
            batch_reader(ten), 10, num_epochs=num_epochs, seed=1, shuffle=True
        )

    loader = make(1)
    assert [*numbers(loader), *numbers(loader)] == numbers(make(2))


@pytest.mark.parametrize("capacity", [1, 4, 7])
def test_a_warning_says_that_rows_are_left_out(ten: str, capacity: int) -> None:
    with pytest.warns(UserWarning, match=f"keeps the first {capacity} rows"):
        loader = InMemBatchedDataLoader(batch_reader(ten), 10, rows_capacity=capacity)
    assert numbers(loader) == [list(range(capacity))]


@pytest.mark.parametrize("capacity", [10, 11, 10**9])
def test_none_is_said_if_all_are_kept(ten: str, capacity: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loader = InMemBatchedDataLoader(batch_reader(ten), 10, rows_capacity=capacity)
    assert numbers(loader) == [list(range(10))]


def test_a_reader_without_an_end_fills_the_memory(ten: str) -> None:
    reader = batch_reader(ten, num_epochs=None)
    loader = InMemBatchedDataLoader(reader, 100, rows_capacity=25)
    assert numbers(loader) == [[*range(10), *range(10), *range(5)]]


def test_a_batch_is_a_copy(ten: str) -> None:
    loader = InMemBatchedDataLoader(batch_reader(ten), 10, num_epochs=2)
    first, second = iter(loader)
    first["number"] += 100
    assert second["number"].tolist() == list(range(10))


def test_the_function_makes_the_tensors(ten: str) -> None:
    loader = InMemBatchedDataLoader(
        batch_reader(ten), 10, transform_fn=lambda array: torch.as_tensor(array) * 2
    )
    assert numbers(loader) == [list(range(0, 20, 2))]


def test_without_rows_there_are_no_batches(tmp_path: Path) -> None:
    url = write_parquet(tmp_path / "empty", {"number": np.arange(0)})
    with pytest.warns(UserWarning, match="No matching data"):
        loader = InMemBatchedDataLoader(batch_reader(url), num_epochs=2)
    assert list(loader) == []


def test_numbers_are_checked(ten: str) -> None:
    with pytest.raises(ArgumentTypeError, match="needs a number of epochs"):
        InMemBatchedDataLoader(batch_reader(ten), num_epochs=None)  # type: ignore[arg-type]
    for name in ("batch_size", "num_epochs", "rows_capacity"):
        with pytest.raises(InvalidArgumentError, match=f"{name} must be an integer of at least 1"):
            InMemBatchedDataLoader(batch_reader(ten), **{name: 0})
