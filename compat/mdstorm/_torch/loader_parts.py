"""Loaders over the items of any reader, in the parts that subclasses of Petastorm's override.

Code that copied ``petastorm.pytorch`` replaces `_iter_impl`, or only `_yield_batches`, and finds
the rows in ``_shuffling_buffer`` and ``_batch_acc``. For such a subclass both loaders work in these
parts over every reader; others use them only where rows come one by one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np
import torch

from mdstorm._torch.columns import (
    Columns,
    arrays_of,
    collate_rows,
    cut,
    decimal_friendly_collate,
    only_tensor,
    row_for_torch,
    rows_of_columns,
    shuffled,
    tensors_of,
)
from mdstorm._torch.loader import ReaderLoader
from mdstorm.reader_impl.pytorch_shuffling_buffer import (
    BatchedNoopShufflingBuffer,
    BatchedRandomShufflingBuffer,
    BatchedShufflingBufferBase,
)
from mdstorm.reader_impl.shuffling_buffer import (
    NoopShufflingBuffer,
    RandomShufflingBuffer,
    ShufflingBufferBase,
)

#: Rows to convert at a time when they come one by one.
ROWS_AT_A_TIME = 1024

#: What a buffer may hold beyond its capacity: any batch that a reader delivers.
_ANY = sys.maxsize // 4


class RowLoader(ReaderLoader):
    """Batches of rows, which `collate_fn` puts together."""

    collate_fn: Callable[[list[Any]], Any]
    _shuffling_buffer: ShufflingBufferBase
    #: Rows of the batch that is being filled.
    _batch_acc: list[Any]

    @property
    def _mdstorm_collates(self) -> bool:
        return self.collate_fn is not decimal_friendly_collate

    def _mdstorm_collated(self, rows: list[Any]) -> Any:
        return self.collate_fn(rows) if self._mdstorm_collates else collate_rows(rows)

    def _mdstorm_of_items(self, batch_size: int) -> Iterator[Any]:
        if self._mdstorm_has_own_parts() or not self.reader.batched_output:
            yield from self._mdstorm_in_parts()
            return
        parts: Iterator[Columns] = map(self._mdstorm_columns, self.reader)
        if self._mdstorm_queue():
            parts = shuffled(parts, self._mdstorm_queue(), np.random.permutation)
        for columns in cut(parts, batch_size):
            yield self.collate_fn(rows_of_columns(columns)) if self._mdstorm_collates else columns

    def _mdstorm_columns(self, item: Any) -> Columns:
        return arrays_of(item) if self._mdstorm_collates else tensors_of(item)

    def _mdstorm_in_parts(self) -> Iterator[Any]:
        capacity, self._batch_acc = self._mdstorm_queue(), []
        self._shuffling_buffer = (
            RandomShufflingBuffer(capacity, capacity - 1, _ANY)
            if capacity
            else NoopShufflingBuffer()
        )
        keys: Sequence[Any] = ()
        for item in self.reader:
            keys, rows = self._mdstorm_rows(item)
            self._shuffling_buffer.add_many(rows)
            yield from self._yield_batches(keys)
        self._shuffling_buffer.finish()
        yield from self._yield_batches(keys)
        if self._batch_acc:
            yield self._mdstorm_collated(self._batch_acc)

    def _mdstorm_rows(self, item: Any) -> tuple[Sequence[Any], list[Any]]:
        """Return the fields of an item, and its rows: tuples of a batch, or a dict."""
        if self.reader.batched_output:
            columns = arrays_of(item)
            return tuple(columns), list(zip(*columns.values(), strict=True))
        row = row_for_torch(item)
        return tuple(row), [row]

    def _yield_batches(self, keys: Sequence[Any]) -> Iterator[Any]:
        """Yield batches as long as the shuffling buffer gives rows.

        Parameters
        ----------
        keys : sequence of str
            Fields of the rows in the buffer, where these are tuples.
        """
        while self._shuffling_buffer.can_retrieve():
            row = self._shuffling_buffer.retrieve()
            if not isinstance(row, Mapping):
                row = dict(zip(keys, row, strict=True))
            self._batch_acc.append(row)
            if len(self._batch_acc) == self.batch_size:
                batch, self._batch_acc = self._batch_acc, []
                yield self._mdstorm_collated(batch)

    def _mdstorm_has_own_parts(self) -> bool:
        return super()._mdstorm_has_own_parts() or self._mdstorm_overrides(
            RowLoader, "_yield_batches"
        )


class ColumnLoader(ReaderLoader):
    """Batches of columns, which are tensors by `transform_fn`."""

    transform_fn: Callable[[Any], Any]
    _shuffling_buffer: BatchedShufflingBufferBase

    def _mdstorm_of_items(self, batch_size: int) -> Iterator[Any]:
        if self._mdstorm_has_own_parts():
            yield from self._mdstorm_in_parts(batch_size)
            return
        parts: Iterator[Columns] = map(self._mdstorm_tensors, self._mdstorm_parts())
        if self._mdstorm_queue():
            parts = shuffled(
                parts, self._mdstorm_queue(), lambda rows: torch.randperm(rows).numpy()
            )
        yield from cut(parts, batch_size)

    def _mdstorm_in_parts(self, batch_size: int) -> Iterator[Any]:
        least = self._mdstorm_queue() - 1
        self._shuffling_buffer = (
            BatchedRandomShufflingBuffer(least + batch_size, least, _ANY, batch_size)
            if self._mdstorm_queue()
            else BatchedNoopShufflingBuffer(batch_size)
        )
        keys: Sequence[Any] = ()
        for columns in map(self._mdstorm_tensors, self._mdstorm_parts()):
            keys = tuple(columns)
            self._shuffling_buffer.add_many(columns.values())
            yield from self._yield_batches(keys)
        self._shuffling_buffer.finish()
        yield from self._yield_batches(keys)

    def _yield_batches(self, keys: Sequence[Any]) -> Iterator[Any]:
        """Yield batches as long as the shuffling buffer gives them.

        Parameters
        ----------
        keys : sequence of str
            Fields of the columns in the buffer.
        """
        while self._shuffling_buffer.can_retrieve():
            yield dict(zip(keys, self._shuffling_buffer.retrieve(), strict=True))

    def _mdstorm_parts(self) -> Iterator[Columns]:
        """Yield columns of some rows each."""
        if self.reader.batched_output:
            for item in self.reader:
                yield tensors_of(item)
            return
        rows = map(row_for_torch, self.reader)
        while part := list(islice(rows, ROWS_AT_A_TIME)):
            yield collate_rows(part)

    def _mdstorm_tensors(self, columns: Columns) -> Columns:
        tensors = {name: only_tensor(values, name) for name, values in columns.items()}
        return {n: torch.as_tensor(self.transform_fn(t.numpy())) for n, t in tensors.items()}

    def _mdstorm_has_own_parts(self) -> bool:
        return super()._mdstorm_has_own_parts() or self._mdstorm_overrides(
            ColumnLoader, "_yield_batches"
        )
