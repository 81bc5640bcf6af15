"""Loaders over mdstorm's readers: blocks, complete passes, states, and rows kept in memory."""

import datetime
import threading
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.kit.readers import (
    TYPES,
    batch_reader,
    numbers,
    row_reader,
    rows,
    with_either,
    write_parquet,
)

from mdstorm.errors import (
    ArgumentTypeError,
    InvalidArgumentError,
    NullValueError,
    StateMismatchError,
    UnsupportedTypeError,
)
from mdstorm.pytorch import BatchedDataLoader, DataLoader, InMemBatchedDataLoader


class TestBatches:
    @pytest.mark.parametrize("size", [0, -1])
    @pytest.mark.parametrize("kind", [DataLoader, BatchedDataLoader, InMemBatchedDataLoader])
    def test_batch_size_below_one_raises_error(self, ten: str, kind: Any, size: int) -> None:
        capacity = {"rows_capacity": 10} if kind is InMemBatchedDataLoader else {}
        with (
            batch_reader(ten, num_epochs=2) as reader,
            pytest.raises(InvalidArgumentError, match=f"^batch_size must be .*, found {size}"),
        ):
            kind(reader, batch_size=size, **capacity)

    def test_loader_without_batch_size_yields_one_batch(self, ten: str) -> None:
        loader = DataLoader(batch_reader(ten, num_epochs=2), batch_size=None)
        assert numbers(loader) == [[*range(10), *range(10)]]

    def test_loader_without_batch_size_over_infinite_reader_raises_error(self, ten: str) -> None:
        loader = DataLoader(batch_reader(ten, num_epochs=None), batch_size=None)
        with pytest.raises(InvalidArgumentError, match="never ends with num_epochs=None"):
            next(iter(loader))


class TestShuffling:
    @with_either
    def test_shuffled_loader_yields_each_row_once(self, thousand: str, reader: Any) -> None:
        loader = DataLoader(reader(thousand), 64, shuffling_queue_capacity=7)
        first = rows(loader)
        assert sorted(first) == list(range(1000))
        assert first != list(range(1000))


class TestThreads:
    """The threads in which a loader reads ahead."""

    def test_threads_end_when_the_context_exits(self, thousand: str) -> None:
        before = set(threading.enumerate())
        with DataLoader(batch_reader(thousand, num_epochs=None), 10) as loader:
            batches = iter(loader)
            next(batches)
            assert set(threading.enumerate()) - before
        assert not set(threading.enumerate()) - before


class TestPasses:
    """A second ``for`` loop is a complete pass, even if the first one ended early."""

    def test_new_loaders_over_the_same_reader_continue_its_passes(self, thousand: str) -> None:
        def shuffled() -> Any:
            return batch_reader(thousand, seed=1, shuffle_rows=True)

        one = DataLoader(shuffled(), 50)
        reader = shuffled()
        passes = [rows(DataLoader(reader, 50)) for _ in range(3)]
        assert passes == [rows(one) for _ in range(3)]

    def test_loader_over_consumed_reader_starts_with_next_epoch(self, thousand: str) -> None:
        reader = batch_reader(thousand, seed=1, shuffle_rows=True)
        taken = [number for batch in reader for number in batch.number.tolist()]
        loader = DataLoader(batch_reader(thousand, seed=1, shuffle_rows=True), 50)
        assert rows(loader) == taken
        assert rows(DataLoader(reader, 50)) == rows(loader)

    def test_last_row_consumed_is_true_after_a_pass(self, ten: str) -> None:
        loader = DataLoader(batch_reader(ten), 4)
        assert loader.reader.last_row_consumed is False
        rows(loader)
        assert loader.reader.last_row_consumed is True

    @with_either
    def test_loader_over_a_used_reader_yields_its_remaining_rows_first(
        self, ten: str, reader: Any
    ) -> None:
        begun = reader(ten)
        taken = next(begun).number
        loader = DataLoader(begun, 4)
        assert rows(loader) == list(range(10))[np.size(taken) :]
        assert rows(loader) == list(range(10))

    def test_exiting_the_context_stops_the_reader(self, ten: str) -> None:
        with DataLoader(batch_reader(ten), 4) as loader:
            batches = iter(loader)
            next(batches)
        assert loader.reader.stopped
        assert list(batches) == []
        with pytest.raises(RuntimeError, match="Trying to read a sample after a reader created by"):
            list(loader)


class TestStates:
    def test_state_of_loader_over_a_used_reader_raises_error(self, ten: str) -> None:
        reader = batch_reader(ten)
        next(reader)
        with pytest.raises(StateMismatchError, match="gets items one by one from its reader"):
            DataLoader(reader, 4).state_dict()


class TestValues:
    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        columns = {
            **TYPES,
            "ragged": [[1], [2, 3]],
            "text": ["a", "bc"],
            "raw": [b"\0", b"x"],
            "day": [datetime.date(2020, 1, 1), datetime.date(2020, 1, 2)],
            "time": [datetime.datetime(2020, 1, 1), datetime.datetime(2020, 1, 2)],
        }
        return write_parquet(tmp_path / "types", columns)

    def test_batch_tensors_have_petastorms_types(self, url: str) -> None:
        (batch,) = DataLoader(batch_reader(url, decimals="decimal"), 2)
        tensors = {n: (v.dtype, v.tolist()) for n, v in batch.items() if hasattr(v, "dtype")}
        assert tensors == {
            "flag": (torch.uint8, [1, 0]),
            "u16": (torch.int32, [1, 65535]),
            "u32": (torch.int64, [1, 2**32 - 1]),
            "i8": (torch.int8, [-1, 1]),
            "f32": (torch.float32, [0.5, 1.5]),
            "array": (torch.float32, [[1.0, 2.0], [3.0, 4.0]]),
            "time": (torch.int64, [1577836800 * 10**9, 1577923200 * 10**9]),
        }
        assert batch["text"] == ["a", "bc"]
        assert batch["raw"] == [b"\0", b"x"]
        assert batch["price"] == [Decimal("1.50"), Decimal("2.25")]
        assert [str(day) for day in batch["day"]] == ["2020-01-01", "2020-01-02"]
        assert [array.tolist() for array in batch["ragged"]] == [[1], [2, 3]]

    @with_either
    def test_tensors_from_items_blocks_and_batches_are_equal(self, url: str, reader: Any) -> None:
        begun = reader(url, num_epochs=2, decimals="decimal")
        list(islice(begun, 1 if reader is batch_reader else 2))
        (of_items,) = DataLoader(begun, 2)
        (of_blocks,) = DataLoader(row_reader(url, decimals="decimal"), 2)
        (of_batches,) = DataLoader(batch_reader(url, decimals="decimal"), 2)
        for name, expected in of_batches.items():
            for found in (of_items[name], of_blocks[name]):
                assert str(found) == str(expected) or list(found) == list(expected)
                assert getattr(found, "dtype", None) == getattr(expected, "dtype", None)


class TestNulls:
    @pytest.fixture
    def url(self, tmp_path: Path) -> str:
        columns = {
            "number": [0, 1, None],
            "real": [0.5, None, 1.5],
            "text": ["a", None, "b"],
            "flag": [True, None, False],
        }
        return write_parquet(tmp_path / "nulls", columns)

    def test_nulls_that_tensors_cannot_represent_raise_error(self, url: str) -> None:
        with pytest.raises(NullValueError, match="column 'flag' holds 1 null"):
            next(iter(DataLoader(batch_reader(url, schema_fields=["flag"]), 3)))

    def test_error_for_row_reader_names_all_columns_with_nulls(self, url: str) -> None:
        loader = DataLoader(row_reader(url, schema_fields=["number", "flag"]), 3)
        with pytest.raises(NullValueError, match="Found None in ") as caught:
            list(loader)
        assert list(caught.value.columns) == ["number", "flag"]
        assert "Found None in number, flag." in str(caught.value)


def test_collate_fn_receives_promoted_values(tmp_path: Path) -> None:
    url = write_parquet(tmp_path / "flags", {"flag": [True, False]})
    for reader in (batch_reader, row_reader):
        (batch,) = DataLoader(reader(url), 2, list)
        assert [row["flag"] for row in batch] == [1, 0]
        assert all(isinstance(row["flag"], np.uint8) for row in batch)


@with_either
def test_transform_fn_receives_whole_columns(thousand: str, reader: Any) -> None:
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
def test_invalid_batch_size_raises_error(ten: str, size: Any) -> None:
    """Petastorm's loader would yield empty batches forever, or fail if the size is None."""
    with pytest.raises(InvalidArgumentError, match=f"positive number of rows, found {size}"):
        BatchedDataLoader(batch_reader(ten), size)


@with_either
@pytest.mark.parametrize("values", [["a", "b"], [b"a", b"b"], [[1], [2, 3]]])
def test_column_without_a_tensor_type_raises_error(
    tmp_path: Path, reader: Any, values: Any
) -> None:
    url = write_parquet(tmp_path / "objects", {"c": values})
    fragment = "not support arrays of string or object classes. Found in field c"
    with pytest.raises(UnsupportedTypeError, match=fragment) as caught:
        list(BatchedDataLoader(reader(url), 2))
    assert list(caught.value.columns) == ["c"]
    assert isinstance(caught.value, TypeError)


def test_nulls_in_a_boolean_column_raise_error(tmp_path: Path) -> None:
    url = write_parquet(tmp_path / "nulls", {"flag": [True, None], "number": [1, None]})
    with pytest.raises(NullValueError, match="column 'flag'"):
        list(BatchedDataLoader(batch_reader(url), 2))
    (batch,) = BatchedDataLoader(batch_reader(url, schema_fields=["number"]), 2)
    assert batch["number"].dtype == torch.float64
    with pytest.raises(TypeError, match="Found None in number"):
        list(BatchedDataLoader(row_reader(url, schema_fields=["number"]), 2))


class TestInMemory:
    """`InMemBatchedDataLoader` reads rows once and keeps them in memory."""

    def test_in_memory_loader_stops_its_reader_immediately(self, ten: str) -> None:
        reader = batch_reader(ten)
        with InMemBatchedDataLoader(reader) as loader:
            assert reader.stopped
        assert len(list(loader)) == 10

    def test_second_pass_in_memory_uses_the_next_permutation(self, ten: str) -> None:
        def make(num_epochs: int) -> Any:
            return InMemBatchedDataLoader(
                batch_reader(ten), 10, num_epochs=num_epochs, seed=1, shuffle=True
            )

        loader = make(1)
        assert [*numbers(loader), *numbers(loader)] == numbers(make(2))

    def test_in_memory_loader_keeps_rows_up_to_its_capacity(self, ten: str) -> None:
        for capacity in (10, 10**9):  # a warning would be an error
            loader = InMemBatchedDataLoader(batch_reader(ten), 10, rows_capacity=capacity)
            assert numbers(loader) == [list(range(10))]
        with pytest.warns(UserWarning, match="keeps the first 7 rows"):
            loader = InMemBatchedDataLoader(batch_reader(ten), 10, rows_capacity=7)
        assert numbers(loader) == [list(range(7))]
        endless = batch_reader(ten, num_epochs=None)
        loader = InMemBatchedDataLoader(endless, 100, rows_capacity=25)
        assert numbers(loader) == [[*range(10), *range(10), *range(5)]]

    def test_in_memory_batches_are_copies(self, ten: str) -> None:
        loader = InMemBatchedDataLoader(batch_reader(ten), 10, num_epochs=2)
        first, second = iter(loader)
        first["number"] += 100
        assert second["number"].tolist() == list(range(10))

    def test_in_memory_loader_applies_transform_fn(self, ten: str) -> None:
        loader = InMemBatchedDataLoader(
            batch_reader(ten), 10, transform_fn=lambda array: torch.as_tensor(array) * 2
        )
        assert numbers(loader) == [list(range(0, 20, 2))]

    def test_in_memory_loader_without_rows_yields_no_batches(self, tmp_path: Path) -> None:
        url = write_parquet(tmp_path / "empty", {"number": np.arange(0)})
        with pytest.warns(UserWarning, match="No matching data"):
            loader = InMemBatchedDataLoader(batch_reader(url), num_epochs=2)
        assert list(loader) == []

    def test_invalid_in_memory_loader_arguments_raise_error(self, ten: str) -> None:
        with pytest.raises(ArgumentTypeError, match="needs a number of epochs"):
            InMemBatchedDataLoader(batch_reader(ten), num_epochs=None)  # type: ignore[arg-type]
        for name in ("batch_size", "num_epochs", "rows_capacity"):
            with pytest.raises(
                InvalidArgumentError, match=f"{name} must be an integer of at least 1"
            ):
                InMemBatchedDataLoader(batch_reader(ten), **{name: 0})
