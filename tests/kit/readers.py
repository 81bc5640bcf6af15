"""Readers for loader tests: mdstorm's over small Parquet files, and a different reader class."""

from collections import namedtuple
from collections.abc import Iterable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from mdstorm._readers.reading_order import log_whole_passes
from mdstorm._readers.succession import successions
from mdstorm.reader import make_batch_reader, make_reader

#: Arguments for reading in stored order.
IN_ORDER = {"shuffle_row_groups": False}

#: Parquet columns that loaders convert to other types or do not support.
TYPES: dict[str, Any] = {
    "flag": [True, False],
    "u16": pa.array([1, 65535], pa.uint16()),
    "u32": pa.array([1, 2**32 - 1], pa.uint32()),
    "i8": pa.array([-1, 1], pa.int8()),
    "f32": pa.array([0.5, 1.5], pa.float32()),
    "array": pa.array([[1.0, 2.0], [3.0, 4.0]], pa.list_(pa.float32())),
    "price": [Decimal("1.50"), Decimal("2.25")],
}

_MADE: list[Any] = []


def write_parquet(directory: Path, columns: dict[str, Any], row_group_size: int = 4) -> str:
    """Write a Parquet file and return the URL of its directory."""
    directory.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), directory / "part.parquet", row_group_size=row_group_size)
    return f"file://{directory}"


def batch_reader(url: str, **arguments: Any) -> Any:
    _MADE.append(make_batch_reader(url, **{**IN_ORDER, **arguments}))
    return _MADE[-1]


def row_reader(url: str, **arguments: Any) -> Any:
    with pytest.warns(UserWarning, match="reading only Petastorm datasets"):
        _MADE.append(make_reader(url, **{**IN_ORDER, **arguments}))
    return _MADE[-1]


#: Runs a test with each kind of reader.
with_either = pytest.mark.parametrize("reader", [batch_reader, row_reader], ids=["batch", "row"])


def stop_readers() -> None:
    """Stop the threads of all readers, because TensorFlow never releases a generator."""
    while _MADE:
        _MADE.pop().stop()


def continue_as_another_process() -> None:
    """Forget which epochs this process has read, and what it has logged once."""
    successions.clear()
    log_whole_passes.cache_clear()


class ItemReader:
    """A reader over a list of items, with the interface that loaders use."""

    ngram = None
    num_epochs = 1

    def __init__(self, items: Sequence[Any], *, batched: bool) -> None:
        self.batched_output = batched
        self.last_row_consumed = False
        self.stopped = 0
        self.joined = 0
        self._items = items
        self._remaining = iter(items)

    def __iter__(self) -> "ItemReader":
        return self

    def __next__(self) -> Any:
        try:
            return next(self._remaining)
        except StopIteration:
            self.last_row_consumed = True
            raise

    def reset(self) -> None:
        if not self.last_row_consumed:
            raise NotImplementedError("resetting a reader while in the middle of iteration")
        self._remaining, self.last_row_consumed = iter(self._items), False

    def stop(self) -> None:
        self.stopped += 1

    def join(self) -> None:
        self.joined += 1


def items(**columns: Sequence[Any]) -> list[Any]:
    """Return items with these columns, as rows of single values or batches of arrays."""
    type_ = namedtuple("item", list(columns))  # type: ignore[misc]
    return [type_(*values) for values in zip(*columns.values(), strict=True)]


def numbers(batches: Iterable[Any]) -> list[list[int]]:
    """Return the ``number`` column in each batch of tensors."""
    return [batch["number"].tolist() for batch in batches]


def rows(batches: Iterable[Any]) -> list[int]:
    """Return the ``number`` column for all rows."""
    return [number for batch in numbers(batches) for number in batch]
