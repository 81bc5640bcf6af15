"""Subclasses that override parts of the loaders, and the buffers that these parts use."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.compat.readers import ItemReader, batch_reader, items, numbers

from mdstorm.errors import ShufflingBufferError, StateMismatchError, UnsupportedArgumentError
from mdstorm.pytorch import BatchedDataLoader, DataLoader
from mdstorm.reader_impl.shuffling_buffer import RandomShufflingBuffer


class Twice(DataLoader):
    def _yield_batches(self, keys: Any) -> Iterator[Any]:
        for batch in super()._yield_batches(keys):
            yield from (batch, batch)


class TwiceBatched(BatchedDataLoader):
    def _iter_impl(self) -> Iterator[Any]:
        for batch in super()._iter_impl():
            yield from (batch, batch)


class Other(DataLoader):
    """Overrides something else."""

    label = "other"


with_each = pytest.mark.parametrize("class_", [Twice, TwiceBatched])


@with_each
def test_rows_of_a_pass_that_was_left_do_not_come_again(class_: Any) -> None:
    reader = ItemReader(items(number=list(np.arange(6))), batched=False)
    loader = class_(reader, batch_size=4)
    for _ in loader:
        reader.last_row_consumed = True  # so that it lets itself be reset
        break
    assert numbers(loader)[0] == [0, 1, 2, 3]


@with_each
def test_there_is_no_state_of_what_a_subclass_makes(ten: str, class_: Any) -> None:
    with pytest.raises(StateMismatchError, match="one by one"):
        class_(batch_reader(ten)).state_dict()


def test_a_subclass_that_changes_no_part_reads_whole_blocks(ten: str) -> None:
    loader = Other(batch_reader(ten), 4)
    assert numbers(loader) == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert loader.state_dict()


def test_a_subclass_without_a_batch_size_gets_one_batch(ten: str) -> None:
    assert numbers(Twice(batch_reader(ten), None)) == [list(range(10))]


def test_an_empty_buffer_gives_nothing() -> None:
    buffer = RandomShufflingBuffer(1, 0)
    assert not buffer.can_retrieve()
    buffer.finish()
    assert not buffer.can_retrieve()
    with pytest.raises(ShufflingBufferError, match="Can not dequeue from 0 items"):
        buffer.retrieve()


def test_a_part_that_the_loader_of_columns_lacks_is_named(ten: str) -> None:
    class Own(BatchedDataLoader):
        def _yield_batches(self, keys: Any) -> Iterator[Any]:
            raise AssertionError

    with pytest.raises(UnsupportedArgumentError, match="override _iter_impl"):
        Own(batch_reader(ten))
