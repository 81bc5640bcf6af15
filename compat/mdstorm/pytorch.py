"""Loaders over readers: the mirror of ``petastorm.pytorch``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
import torch

from mdstorm._readers.argument_checks import check_integer
from mdstorm._readers.passes import ReaderPasses
from mdstorm._torch.blocks import collated, tensors, transformed
from mdstorm._torch.columns import (
    Columns,
    arrays_of,
    cut,
    first_rows,
    num_rows,
    only_tensor,
    rows_of_columns,
    shuffled,
    tensors_of,
)
from mdstorm._torch.loader import LoaderBase, ReaderLoader
from mdstorm._torch.rows import (
    collate_rows,
    decimal_friendly_collate,
    row_for_torch,
    shuffled_rows,
)
from mdstorm.errors import ArgumentTypeError
from mdstorm_backend.base import OwnContext
from mdstorm_backend.loaders import Convert

__all__ = [
    "BatchedDataLoader",
    "DataLoader",
    "InMemBatchedDataLoader",
    "LoaderBase",
    "decimal_friendly_collate",
]

#: Rows to convert at a time when they come one by one.
_ROWS_AT_A_TIME = 1024


class DataLoader(ReaderLoader):
    """Batches of a reader's rows as dicts of tensors.

    Over an unused reader from `make_batch_reader` or `make_reader`, batches are sliced from whole
    blocks of rows, as fast as in the converter's loader. Each iteration is then a complete pass of
    its own with new permutations, also after a ``break`` and while another one is in progress, and
    there is a `state_dict`. Over other readers (WeightedSamplingReader, n-grams, objects with
    Petastorm's ``Reader`` interface) items are taken one at a time. A second pass resets them,
    which some support only at their end.

    Booleans become uint8, uint16 int32, uint32 int64, timestamps int64 nanoseconds since 1970 UTC.
    Strings, binaries, decimals, dates, nested values and arrays of several shapes are lists.
    Integers with nulls are float64 with NaN if the reader delivers batches; other nulls that no
    tensor can hold, and all but those of floating-point numbers if it delivers rows, are an error.

    Parameters
    ----------
    reader : Reader
        The reader, which also sets the number of epochs.
    batch_size : int
        Rows per batch. Batches span epochs; the last one may be shorter. None, 0 or less: all rows
        of all epochs.
    collate_fn : callable
        Makes a batch of the list of its rows, which are dicts from column to value. The default one
        is not called: whole columns make the same batches.
    shuffling_queue_capacity : int
        Rows are shuffled within windows of this many rows or, if that is more, one shard, by the
        seed of the reader. Over other readers they are drawn by ``np.random`` from a pool of this
        size. 0: no shuffling.

    Raises
    ------
    InvalidArgumentError
        If a number is not an integer.
    NullValueError
        If a null has no value in PyTorch; also TypeError.
    RuntimeError
        If the reader was stopped, or a pass over another kind of reader failed or is in progress.

    Notes
    -----
    The signature is that of ``petastorm.pytorch.DataLoader``. Leaving the ``with`` statement stops
    the reader.
    """

    def __init__(
        self,
        reader: Any,
        batch_size: int | None = 1,
        collate_fn: Callable[[list[Any]], Any] = decimal_friendly_collate,
        shuffling_queue_capacity: int | None = 0,
    ) -> None:
        super().__init__(reader, batch_size, shuffling_queue_capacity)
        self.collate_fn = collate_fn

    @property
    def _collates(self) -> bool:
        return self.collate_fn is not decimal_friendly_collate

    def _of_blocks(self, passes: ReaderPasses) -> Convert:
        if self._collates:
            return collated(self.reader, self.collate_fn)
        return tensors(self.reader, passes.options)

    def _of_items(self, batch_size: int) -> Iterator[Any]:
        if not self.reader.batched_output:
            rows = map(row_for_torch, self.reader)
            queue = shuffled_rows(rows, self._queue()) if self._queue() else rows
            while batch := list(islice(queue, batch_size)):
                yield self.collate_fn(batch) if self._collates else collate_rows(batch)
            return
        parts: Iterator[Columns] = map(self._columns, self.reader)
        if self._queue():
            parts = shuffled(parts, self._queue(), np.random.permutation)
        for columns in cut(parts, batch_size):
            yield self.collate_fn(rows_of_columns(columns)) if self._collates else columns

    def _columns(self, item: Any) -> Columns:
        return arrays_of(item) if self._collates else tensors_of(item)


class BatchedDataLoader(ReaderLoader):
    """Batches of a reader's rows as dicts of tensors, made by a function of whole columns.

    Works like `DataLoader`, except that every column is a tensor.

    Parameters
    ----------
    reader, batch_size
        As in `DataLoader`.
    transform_fn : callable, optional
        Takes the array of one column of many rows and returns a tensor, which may be on another
        device; ``torch.as_tensor`` by default. The number of rows it gets is unspecified.
    shuffling_queue_capacity : int
        As in `DataLoader`; over other readers the rows are drawn by ``torch.randperm``.

    Raises
    ------
    UnsupportedTypeError
        If there is no tensor for a column: strings, binaries, decimals, dates, nested values,
        arrays of several shapes; also TypeError.
    InvalidArgumentError, NullValueError, RuntimeError
        As in `DataLoader`.

    Notes
    -----
    The signature is that of ``petastorm.pytorch.BatchedDataLoader``.
    """

    def __init__(
        self,
        reader: Any,
        batch_size: int | None = 1,
        transform_fn: Callable[[Any], Any] | None = None,
        shuffling_queue_capacity: int | None = 0,
    ) -> None:
        super().__init__(reader, batch_size, shuffling_queue_capacity)
        self.transform_fn = transform_fn or torch.as_tensor

    def _of_blocks(self, passes: ReaderPasses) -> Convert:
        return transformed(self.reader, passes.options, self.transform_fn)

    def _of_items(self, batch_size: int) -> Iterator[Any]:
        parts: Iterator[Columns] = map(self._tensors, self._parts())
        if self._queue():
            parts = shuffled(parts, self._queue(), lambda rows: torch.randperm(rows).numpy())
        yield from cut(parts, batch_size)

    def _parts(self) -> Iterator[Columns]:
        """Yield columns of some rows each."""
        if self.reader.batched_output:
            for item in self.reader:
                yield tensors_of(item)
            return
        rows = map(row_for_torch, self.reader)
        while part := list(islice(rows, _ROWS_AT_A_TIME)):
            yield collate_rows(part)

    def _tensors(self, columns: Columns) -> Columns:
        tensors = {name: only_tensor(values, name) for name, values in columns.items()}
        return {n: torch.as_tensor(self.transform_fn(t.numpy())) for n, t in tensors.items()}


class InMemBatchedDataLoader(OwnContext):
    """Batches of rows that are kept in memory.

    The constructor reads the rows, and then stops the reader.

    Parameters
    ----------
    reader : Reader
        What is read.
    batch_size : int
        Rows of a batch; the last one of each epoch may be shorter.
    transform_fn : callable, optional
        As in `BatchedDataLoader`.
    num_epochs : int
        Passes over the rows per iteration. The next iteration continues with further passes.
    seed : int
        With `shuffle` pass number e has the permutation of ``torch.randperm`` by the seed
        ``seed + e``, as in Petastorm.
    rows_capacity : int
        Most rows to read; a warning says if rows were left out.
    shuffle : bool
        Whether the rows are shuffled.

    Raises
    ------
    ArgumentTypeError
        If `num_epochs` is not an integer.
    InvalidArgumentError
        If a number is not positive.
    UnsupportedTypeError, NullValueError
        As in `BatchedDataLoader`.

    Notes
    -----
    The signature is that of ``petastorm.pytorch.InMemBatchedDataLoader``.
    """

    def __init__(
        self,
        reader: Any,
        batch_size: int = 1,
        transform_fn: Callable[[Any], Any] | None = None,
        num_epochs: int = 1,
        seed: int = 0,
        rows_capacity: int = 1024,
        shuffle: bool = False,
    ) -> None:
        if num_epochs is None:
            raise ArgumentTypeError(
                "num_epochs=None: InMemBatchedDataLoader needs a number of epochs. To read without "
                "end, iterate over it repeatedly"
            )
        given = {"batch_size": batch_size, "num_epochs": num_epochs, "rows_capacity": rows_capacity}
        for name, value in given.items():
            check_integer(name, value, lowest=1)
        self._batch_size = batch_size
        self._num_epochs = num_epochs
        self._seed = seed
        self._shuffle = shuffle
        self._next_epoch = 0
        loader = BatchedDataLoader(reader, min(rows_capacity, _ROWS_AT_A_TIME), transform_fn)
        with loader:
            is_endless = getattr(reader, "num_epochs", 1) is None
            self._columns = first_rows(loader, rows_capacity, is_endless=is_endless)

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:
        first = self._next_epoch
        self._next_epoch += self._num_epochs
        for epoch in range(first, first + self._num_epochs):
            order = self._order(epoch)
            for start in range(0, len(order), self._batch_size):
                rows = order[start : start + self._batch_size]
                yield {name: tensor[rows] for name, tensor in self._columns.items()}

    def _order(self, epoch: int) -> torch.Tensor:
        rows = num_rows(self._columns)
        if not self._shuffle:
            return torch.arange(rows)
        return torch.randperm(rows, generator=torch.Generator().manual_seed(self._seed + epoch))

    def _leave(self) -> None:
        """Do nothing: the reader was stopped before."""
