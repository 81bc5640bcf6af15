"""Loaders that take items one by one: loaders over other reader classes, and loader subclasses."""

import logging
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock, Mock

import numpy as np
import pytest
import torch
from tests.kit.readers import (
    ItemReader,
    batch_reader,
    items,
    numbers,
    row_reader,
    rows,
    write_parquet,
)

from mdstorm.errors import (
    NullValueError,
    StateMismatchError,
    UnsupportedArgumentError,
)
from mdstorm.ngram import NGram
from mdstorm.pytorch import BatchedDataLoader, DataLoader, decimal_friendly_collate
from mdstorm.reader import Reader
from mdstorm.weighted_sampling_reader import WeightedSamplingReader

with_each = pytest.mark.parametrize("class_", [DataLoader, BatchedDataLoader])


def batches_of(*sizes: int) -> ItemReader:
    """A reader that yields ascending numbers in batches of the given sizes."""
    bounds = np.cumsum([0, *sizes])
    arrays = [np.arange(start, stop) for start, stop in pairwise(bounds)]
    return ItemReader(items(number=arrays), batched=True)


def rows_up_to(stop: int) -> ItemReader:
    return ItemReader(items(number=list(np.arange(stop))), batched=False)


@with_each
@pytest.mark.parametrize("batched", [True, False])
def test_mock_with_the_reader_as_spec_yields_its_items(class_: Any, batched: bool) -> None:
    values = [np.arange(3), np.arange(3, 5)] if batched else list(np.arange(5))
    reader = Mock(spec=Reader, batched_output=batched, ngram=None, last_row_consumed=False)
    reader.__iter__ = lambda _: iter(items(number=values))
    with class_(reader, batch_size=4) as loader:
        assert numbers(loader) == numbers(loader) == [[0, 1, 2, 3], [4]]
        with pytest.raises(StateMismatchError, match="gets items one by one"):
            loader.state_dict()
    reader.reset.assert_called_once_with()
    reader.stop.assert_called_once_with()
    assert DataLoader(reader, 4, collate_fn=len).reader is reader


class TestBatches:
    @with_each
    @pytest.mark.parametrize("kind", ["batch", "row"])
    def test_each_pass_yields_the_same_batches(self, class_: Any, kind: str) -> None:
        loader = class_(batches_of(3, 1, 6) if kind == "batch" else rows_up_to(10), batch_size=4)
        for _ in range(3):
            assert numbers(loader) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]

    def test_arrays_of_different_lengths_become_lists(self) -> None:
        reader = ItemReader(items(a=[np.ones((2, 1)), np.ones((2, 3))]), batched=True)
        first, second = DataLoader(reader, 3)
        assert [array.tolist() for array in first["a"]] == [[1.0], [1.0], [1.0, 1.0, 1.0]]
        assert second["a"].tolist() == [[1.0, 1.0, 1.0]]

    @pytest.mark.parametrize("kind", ["rows", "n-grams", "own collate_fn"])
    def test_objects_that_differ_remain_a_list(self, kind: str) -> None:
        values = [{"a": 1}, {"a": 2, "b": 3}]
        rows = items(a=values, n=[np.int64(0), np.int64(1)])
        if kind == "n-grams":
            reader = ItemReader([{0: row} for row in rows], batched=False)
            batch = next(iter(DataLoader(reader, 2)))[0]
        else:
            reader = ItemReader(rows, batched=False)
            own = {"collate_fn": lambda rows: decimal_friendly_collate(rows)}
            (batch,) = DataLoader(reader, 2, **(own if kind == "own collate_fn" else {}))
        assert batch["a"] == values
        assert batch["n"].tolist() == [0, 1]

    def test_collate_fn_and_transform_fn_build_batches(self) -> None:
        seen: list[Any] = []
        list(DataLoader(batches_of(1, 2), 2, collate_fn=seen.append))
        assert seen == [[{"number": 0}, {"number": 1}], [{"number": 2}]]
        (batch,) = BatchedDataLoader(rows_up_to(3), 3, lambda array: torch.tensor(array) * 10)
        assert batch["number"].tolist() == [0, 10, 20]

    def test_null_from_another_reader_class_raises_error(self) -> None:
        flags = ItemReader(items(flag=[np.array([True, None])]), batched=True)
        with pytest.raises(NullValueError, match="column 'flag' holds 1 null"):
            list(DataLoader(flags, 2))
        with pytest.raises(TypeError, match="Found None in flag"):
            list(DataLoader(ItemReader(items(flag=[True, None]), batched=False), 2))


class TestShuffling:
    @with_each
    @pytest.mark.parametrize("kind", ["batch", "row"])
    def test_shuffled_loader_yields_each_row_once(self, class_: Any, kind: str) -> None:
        reader = batches_of(*[10] * 10) if kind == "batch" else rows_up_to(100)
        loader = class_(reader, 8, shuffling_queue_capacity=7)
        for _ in range(2):
            batches = list(loader)
            assert [len(batch["number"]) for batch in batches] == [8] * 12 + [4]
            assert sorted(rows(batches)) == list(range(100))


class TestPasses:
    def test_a_second_pass_resets_the_reader(self, caplog: pytest.LogCaptureFixture) -> None:
        loader = DataLoader(batches_of(5), 4)
        with caplog.at_level(logging.INFO):
            list(loader)
            assert not caplog.records
            list(loader)
        assert "Start a new pass of Petastorm DataLoader" in caplog.text

    def test_second_pass_during_the_first_raises_error(self) -> None:
        loader = DataLoader(batches_of(2, 2), 2)
        batches = iter(loader)
        next(batches)
        with pytest.raises(RuntimeError, match="You must finish a full pass"):
            next(iter(loader))
        assert numbers(batches) == [[2, 3]]

    @with_each
    def test_exiting_the_context_stops_and_joins_the_reader(self, class_: Any) -> None:
        with class_(batches_of(5), 2) as loader:
            next(iter(loader))
        assert (loader.reader.stopped, loader.reader.joined) == (1, 1)

    @with_each
    def test_state_or_statistics_of_another_reader_class_raise_error(self, class_: Any) -> None:
        loader = class_(batches_of(5), 2)
        with pytest.raises(StateMismatchError, match="one by one"):
            loader.state_dict()
        with pytest.raises(StateMismatchError, match="one by one"):
            loader.load_state_dict({})
        with pytest.raises(UnsupportedArgumentError, match="ItemReader has no statistics"):
            loader.statistics()


class TestWeightedReadersAndNGrams:
    def test_loader_over_weighted_readers_yields_full_batches(self, ten: str) -> None:
        readers = [batch_reader(ten, num_epochs=50), batch_reader(ten, num_epochs=50)]
        loader = DataLoader(WeightedSamplingReader(readers, [0.5, 0.5]), 7)
        first = next(iter(loader))
        assert len(first["number"]) == 7

    def test_loader_over_n_grams_yields_batches(self, tmp_path: Path) -> None:
        columns = {"time": range(6), "value": np.arange(6) / 2}
        url = write_parquet(tmp_path / "sequence", columns, 6)
        ngram = NGram({0: ["time"], 1: ["value"]}, 1, "time")
        loader = DataLoader(row_reader(url, schema_fields=ngram), 3)
        for _ in range(2):
            first, second = loader
            assert first[0]["time"].tolist() == [0, 1, 2]
            assert first[1]["value"].tolist() == [0.5, 1.0, 1.5]
            assert second[0]["time"].tolist() == [3, 4]
        next(iter(loader))
        assert len(list(loader)) == 2


class Twice(DataLoader):
    def _yield_batches(self, keys: Any) -> Iterator[Any]:
        for batch in super()._yield_batches(keys):
            yield from (batch, batch)


class TwiceBatched(BatchedDataLoader):
    def _iter_impl(self) -> Iterator[Any]:
        for batch in super()._iter_impl():
            yield from (batch, batch)


class Other(DataLoader):
    """A subclass that only adds an attribute and overrides no methods."""

    label = "other"


with_each_subclass = pytest.mark.parametrize("class_", [Twice, TwiceBatched])


@with_each_subclass
def test_new_pass_yields_no_buffered_rows_from_abandoned_pass(class_: Any) -> None:
    reader = ItemReader(items(number=list(np.arange(6))), batched=False)
    loader = class_(reader, batch_size=4)
    for _ in loader:
        reader.last_row_consumed = True  # otherwise `reset` would raise an error
        break
    assert numbers(loader)[0] == [0, 1, 2, 3]


@with_each_subclass
def test_state_of_subclass_that_overrides_batching_raises_error(ten: str, class_: Any) -> None:
    with pytest.raises(StateMismatchError, match="one by one"):
        class_(batch_reader(ten)).state_dict()


def test_subclass_without_overrides_yields_batches_and_has_a_state(ten: str) -> None:
    loader = Other(batch_reader(ten), 4)
    assert numbers(loader) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert loader.state_dict()


def test_subclass_without_batch_size_yields_one_batch(ten: str) -> None:
    assert numbers(Twice(batch_reader(ten), None)) == [list(range(10))]


def test_unsupported_override_error_names_the_replacement(ten: str) -> None:
    class Own(BatchedDataLoader):
        def _yield_batches(self, keys: Any) -> Iterator[Any]:
            raise AssertionError

    with pytest.raises(UnsupportedArgumentError, match="override _iter_impl"):
        Own(batch_reader(ten))


@with_each
@pytest.mark.parametrize("batched", [True, False])
def test_loader_over_a_mock_yields_items_from_the_mock(class_: Any, batched: bool) -> None:
    numbers_read = [np.arange(4)] if batched else list(np.arange(4))
    reader = MagicMock(batched_output=batched)
    reader.__iter__.side_effect = lambda: iter(items(number=numbers_read))
    with class_(reader, 3) as loader:
        for _ in range(2):
            assert numbers(loader) == [[0, 1, 2], [3]]
    reader.stop.assert_called_once_with()
