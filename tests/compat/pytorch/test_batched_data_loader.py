"""`BatchedDataLoader` and the one in memory: whole columns through a function of the user's."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.compat.readers import (
    batch_reader,
    numbers,
    row_reader,
    with_either,
    write_parquet,
)

from mdstorm.errors import (
    ArgumentTypeError,
    InvalidArgumentError,
    NullValueError,
    UnsupportedTypeError,
)
from mdstorm.pytorch import BatchedDataLoader, InMemBatchedDataLoader


@with_either
def test_the_function_makes_tensors_of_whole_columns(thousand: str, reader: Any) -> None:
    seen: list[Any] = []

    def halve(array: Any) -> torch.Tensor:
        seen.append(array)
        return torch.as_tensor(array / 2).float()

    loader = BatchedDataLoader(reader(thousand), 10, transform_fn=halve)
    batches = list(loader)
    assert loader.transform_fn is halve
    assert len(batches) == 100 > len(seen)
    assert all(isinstance(array, np.ndarray) for array in seen)
    assert batches[1]["number"].tolist() == [5.0, 5.5, 6.0, 6.5, 7.0, 7.5, 8.0, 8.5, 9.0, 9.5]
    assert batches[1]["number"].dtype == torch.float32


@pytest.mark.parametrize("size", [0, -1, None, 2.5])
def test_a_batch_has_at_least_one_row(ten: str, size: Any) -> None:
    """Petastorm's yields empty batches without end, and fails for None."""
    with pytest.raises(InvalidArgumentError, match=f"positive number of rows, found {size}"):
        BatchedDataLoader(batch_reader(ten), size)


@with_either
@pytest.mark.parametrize("values", [["a", "b"], [b"a", b"b"], [[1], [2, 3]]])
def test_what_has_no_tensor_is_refused(tmp_path: Path, reader: Any, values: Any) -> None:
    url = write_parquet(tmp_path / "objects", {"c": values})
    fragment = "not support arrays of string or object classes. Found in field c"
    with pytest.raises(UnsupportedTypeError, match=fragment) as caught:
        list(BatchedDataLoader(reader(url), 2))
    assert list(caught.value.columns) == ["c"]
    assert isinstance(caught.value, TypeError)


def test_nulls_without_a_value_are_refused(tmp_path: Path) -> None:
    url = write_parquet(tmp_path / "nulls", {"flag": [True, None], "number": [1, None]})
    with pytest.raises(NullValueError, match="column 'flag'"):
        list(BatchedDataLoader(batch_reader(url), 2))
    (batch,) = BatchedDataLoader(batch_reader(url, schema_fields=["number"]), 2)
    assert batch["number"].dtype == torch.float64
    with pytest.raises(TypeError, match="Found None in number"):
        list(BatchedDataLoader(row_reader(url, schema_fields=["number"]), 2))


class TestInMemory:
    """`InMemBatchedDataLoader`: rows that are read once and kept."""

    def test_the_reader_is_stopped_at_once(self, ten: str) -> None:
        reader = batch_reader(ten)
        with InMemBatchedDataLoader(reader) as loader:
            assert reader.stopped
        assert len(list(loader)) == 10

    def test_another_iteration_goes_on_with_other_permutations(self, ten: str) -> None:
        def make(num_epochs: int) -> Any:
            return InMemBatchedDataLoader(
                batch_reader(ten), 10, num_epochs=num_epochs, seed=1, shuffle=True
            )

        loader = make(1)
        assert [*numbers(loader), *numbers(loader)] == numbers(make(2))

    @pytest.mark.parametrize("capacity", [1, 4, 7])
    def test_a_warning_says_that_rows_are_left_out(self, ten: str, capacity: int) -> None:
        with pytest.warns(UserWarning, match=f"keeps the first {capacity} rows"):
            loader = InMemBatchedDataLoader(batch_reader(ten), 10, rows_capacity=capacity)
        assert numbers(loader) == [list(range(capacity))]

    @pytest.mark.parametrize("capacity", [10, 11, 10**9])
    def test_none_is_said_if_all_are_kept(self, ten: str, capacity: int) -> None:
        loader = InMemBatchedDataLoader(batch_reader(ten), 10, rows_capacity=capacity)
        assert numbers(loader) == [list(range(10))]

    def test_a_reader_without_an_end_fills_the_memory(self, ten: str) -> None:
        reader = batch_reader(ten, num_epochs=None)
        loader = InMemBatchedDataLoader(reader, 100, rows_capacity=25)
        assert numbers(loader) == [[*range(10), *range(10), *range(5)]]

    def test_a_batch_is_a_copy(self, ten: str) -> None:
        loader = InMemBatchedDataLoader(batch_reader(ten), 10, num_epochs=2)
        first, second = iter(loader)
        first["number"] += 100
        assert second["number"].tolist() == list(range(10))

    def test_the_function_makes_the_tensors(self, ten: str) -> None:
        loader = InMemBatchedDataLoader(
            batch_reader(ten), 10, transform_fn=lambda array: torch.as_tensor(array) * 2
        )
        assert numbers(loader) == [list(range(0, 20, 2))]

    def test_without_rows_there_are_no_batches(self, tmp_path: Path) -> None:
        url = write_parquet(tmp_path / "empty", {"number": np.arange(0)})
        with pytest.warns(UserWarning, match="No matching data"):
            loader = InMemBatchedDataLoader(batch_reader(url), num_epochs=2)
        assert list(loader) == []

    def test_numbers_are_checked(self, ten: str) -> None:
        with pytest.raises(ArgumentTypeError, match="needs a number of epochs"):
            InMemBatchedDataLoader(batch_reader(ten), num_epochs=None)  # type: ignore[arg-type]
        for name in ("batch_size", "num_epochs", "rows_capacity"):
            with pytest.raises(
                InvalidArgumentError, match=f"{name} must be an integer of at least 1"
            ):
                InMemBatchedDataLoader(batch_reader(ten), **{name: 0})
