"""The loaders in `mdstorm.pytorch`, which read blocks of mdstorm readers or items of any reader.

Code copied from ``petastorm.pytorch`` overrides `_iter_impl`, or only `_yield_batches`, and expects
the rows in ``_shuffling_buffer`` and ``_batch_acc``. For such subclasses, `RowLoader` always uses
these methods and attributes; otherwise, it uses them only if it takes single rows from the reader.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from mdstorm._petastorm_names import public
from mdstorm._readers import (
    Reader,
    ReaderPasses,
    check_reader,
    each_batch,
    is_reader,
    rows_of_batch,
    starts_over,
)
from mdstorm._torch import columns as torch_columns
from mdstorm.errors import ArgumentTypeError, StateMismatchError, UnsupportedArgumentError
from mdstorm.reader_impl import shuffling_buffer as row_buffers
from mdstorm_backend import loaders
from mdstorm_backend.base import OwnContext, PassThreads, check_integer
from mdstorm_backend.display import Described, Description
from mdstorm_backend.format import Batch, Column, Values
from mdstorm_backend.loaders import torch as tensor_loaders
from mdstorm_backend.read import Block

_logger = logging.getLogger(__name__)
#: Number of rows that are converted together if a reader yields single rows.
ROWS_AT_A_TIME = 1024
#: Number of rows that a buffer may hold beyond its capacity, enough for any batch from a reader.
_ANY = sys.maxsize // 4


@public("mdstorm.pytorch")
class LoaderBase:
    """Base class for loaders, which iterate over ``self.reader`` with the method ``_iter_impl``.

    Each pass after the first one resets the reader, as does the first pass if the reader is at its
    end. All passes share the reader, so a pass must end before the next pass begins.
    """

    reader: Any

    def __init__(self) -> None:
        #: None before the first pass, True during a pass, and False after it.
        self._in_iter: bool | None = None
        self._error: Exception | None = None

    def __bool__(self) -> bool:
        return True

    def __len__(self) -> int:
        """Raise ArgumentTypeError, mainly because PyTorch's own DataLoader calls this first."""
        raise ArgumentTypeError(
            f"a {type(self).__name__} has no len(). If torch.utils.data.DataLoader was created "
            "over it, iterate over the loader itself instead, which already yields batches"
        )

    def __iter__(self) -> Iterator[Any]:
        if self._error is not None:
            raise RuntimeError(
                "Cannot start a new iteration because last time iteration failed with error "
                f"{self._error!r}. Open a new reader, and create a loader over it"
            )
        if self._in_iter:
            raise RuntimeError(
                "You must finish a full pass of Petastorm DataLoader before making another pass "
                "from the beginning: both would read from one reader. Open a reader, and "
                "create a loader, for each pass"
            )
        if self._in_iter is not None or getattr(self.reader, "last_row_consumed", False):
            if is_reader(self.reader):
                self.reader._mdstorm_restart()
            else:
                self.reader.reset()
            _logger.info(
                "Start a new pass of Petastorm DataLoader, reset underlying Petastorm reader to "
                "position 0."
            )
        self._in_iter = True
        try:
            yield from self._iter_impl()
        except Exception as error:
            self._error = error
            raise
        finally:
            self._in_iter = False

    def _iter_impl(self) -> Iterator[Any]:
        """Yield the batches in one pass."""
        raise NotImplementedError(f"{type(self).__name__} must define _iter_impl")


class ReaderLoader(Described, OwnContext, LoaderBase):
    """A loader that reads whole blocks if its reader is an mdstorm reader.

    Parameters
    ----------
    reader : Reader
        The reader, or any object with Petastorm's ``Reader`` interface.
    batch_size : int or None
        Rows per batch; all rows of all epochs if None.
    shuffling_queue_capacity : int or None
        Rows that are shuffled together.
    """

    def __init__(
        self, reader: Any, batch_size: int | None, shuffling_queue_capacity: int | None
    ) -> None:
        super().__init__()
        check_reader(reader)
        check_integer("batch_size", batch_size, lowest=1)
        check_integer("shuffling_queue_capacity", shuffling_queue_capacity)
        self.reader = reader
        self.batch_size = batch_size
        self.shuffling_queue_capacity = shuffling_queue_capacity
        self._mdstorm_passes: ReaderPasses | None = None
        self._mdstorm_threads = PassThreads()

    def _mdstorm_description(self, *, full: bool) -> Description:
        found, batch = loaders.describe_data(self.reader, full=full), f"{self.batch_size}"
        return replace(
            found,
            line=[*found.line, f"batch_size={batch}"],
            facts=[*found.facts, ("batch_size", batch)],
        )

    def __iter__(self) -> Iterator[Any]:
        return self._mdstorm_threads.follow(self._mdstorm_batches())

    def _mdstorm_leave(self, kind: type[BaseException] | None) -> None:
        self._mdstorm_threads.end()
        self.reader.stop()
        self.reader.join()

    def set_epoch(self, epoch: int) -> None:
        """Choose the first epoch of the next pass; see the reader's ``set_epoch``."""
        self.reader.set_epoch(epoch)

    def statistics(self, *, last_pass: bool = False) -> loaders.Statistics:
        """Return counts and timings for the batches so far; see the reader's ``statistics``.

        If the loader takes items from the reader one by one, items are counted instead of batches.

        Raises
        ------
        UnsupportedArgumentError
            If the reader is not an mdstorm reader.
        """
        if not is_reader(self.reader):
            raise UnsupportedArgumentError(
                f"{type(self.reader).__name__} has no statistics: create the loader over a reader "
                "from make_reader or make_batch_reader"
            )
        return self.reader.statistics(last_pass=last_pass)

    def state_dict(self) -> dict[str, Any]:
        """Return the position of the pass that advanced last, for `load_state_dict`.

        Raises
        ------
        StateMismatchError
            If the position is unknown because the reader is not an mdstorm reader, yields n-grams,
            or was already in use when the loader was created.
        """
        return self._mdstorm_resumable().state_dict()

    def load_state_dict(self, state: dict[str, Any], *, skip_batches: int = 0) -> None:
        """Resume the next pass from a state of an equivalent loader.

        With `skip_batches`, it begins this many batches after the state.

        Raises
        ------
        InvalidArgumentError
            If the pass has fewer batches left than are to be skipped.
        StateMismatchError
            If `state` is not a state, or is from a different dataset or different arguments. Also
            raised in the same cases as for `state_dict`.
        """
        self._mdstorm_resumable().load_state_dict(state, skip_batches)

    def trace(self, state: dict[str, Any] | None = None) -> loaders.Trace:
        """Return which rows the batches have, on any rank, without reading data.

        Batches are counted from 0, from the beginning of the running or else the next pass, or from
        where a state resumes.

        Raises
        ------
        InvalidArgumentError
            If only reading shows which rows a batch has.
        StateMismatchError
            If `state` is not a state, or is from a different dataset or different arguments. Also
            raised in the same cases as for `state_dict`.
        """
        return self._mdstorm_resumable().trace(state)

    def _mdstorm_loop(self) -> loaders.Loader | None:
        """Return the engine's loader, which has the position; None if items are read one by one."""
        passes = self._mdstorm_own_passes()
        return None if passes is None else passes.loader

    def _mdstorm_resumable(self) -> loaders.Loader:
        loader = self._mdstorm_loop()
        if loader is None:
            raise StateMismatchError(
                "this loader has no state, because it gets items one by one from its reader. "
                "Create it over an unused reader from make_reader or make_batch_reader, without "
                "n-grams"
            )
        return loader

    def _mdstorm_batches(self) -> Generator[Any, None, None]:
        passes = self._mdstorm_own_passes()
        if passes is None:
            yield from LoaderBase.__iter__(self)
        else:
            yield from passes(self._mdstorm_of_blocks(passes))

    def _iter_impl(self) -> Iterator[Any]:
        """Yield batches of the reader's items."""
        epochs = getattr(self.reader, "num_epochs", 1)
        rows = rows_of_batch(self.batch_size, num_epochs=epochs, dataset_size=0, may_add_rows=True)
        return self._mdstorm_of_items(rows)

    def _mdstorm_of_items(self, batch_size: int) -> Iterator[Any]:
        raise NotImplementedError

    def _mdstorm_of_blocks(self, passes: ReaderPasses) -> loaders.Convert:
        raise NotImplementedError

    def _mdstorm_own_passes(self) -> ReaderPasses | None:
        """Return the passes over an mdstorm reader; None if only its items can be read.

        Items are taken if the reader was already in use or yields n-grams, or if a subclass creates
        its own batches.
        """
        if (
            self._mdstorm_passes is None
            and not self._mdstorm_has_own_parts()
            and starts_over(self.reader, has_begun=self._in_iter is False)
        ):
            self._mdstorm_passes = ReaderPasses(
                self.reader,
                self.batch_size,
                self._mdstorm_queue(),
                threads=self._mdstorm_threads,
                owner=f"a {type(self).__name__}",
            )
        return self._mdstorm_passes

    def _mdstorm_has_own_parts(self) -> bool:
        """Whether a subclass creates its own batches from the reader's items."""
        found = (getattr(type(self), name, None) for name in ("_iter_impl", "_yield_batches"))
        return any(method is not None and method.__module__ != __name__ for method in found)

    def _mdstorm_queue(self) -> int:
        return max(self.shuffling_queue_capacity or 0, 0)


class RowLoader(ReaderLoader):
    """A loader whose batches are created by `collate_fn` from lists of rows."""

    collate_fn: Callable[[list[Any]], Any]
    _shuffling_buffer: row_buffers.RandomShufflingBuffer | row_buffers.NoopShufflingBuffer
    #: Rows in the batch that is being filled.
    _batch_acc: list[Any]

    @property
    def _mdstorm_collates(self) -> bool:
        return self.collate_fn is not torch_columns.decimal_friendly_collate

    def _mdstorm_collated(self, rows: list[Any]) -> Any:
        return self.collate_fn(rows) if self._mdstorm_collates else torch_columns.collate_rows(rows)

    def _mdstorm_of_items(self, batch_size: int) -> Iterator[Any]:
        if self._mdstorm_has_own_parts() or not self.reader.batched_output:
            yield from self._mdstorm_in_parts()
            return
        collates = self._mdstorm_collates
        convert = torch_columns.arrays_of if collates else torch_columns.tensors_of
        parts: Iterator[torch_columns.Columns] = map(convert, self.reader)
        if self._mdstorm_queue():
            parts = torch_columns.shuffled(parts, self._mdstorm_queue(), np.random.permutation)
        for columns in torch_columns.cut(parts, batch_size):
            yield self.collate_fn(torch_columns.rows_of_columns(columns)) if collates else columns

    def _mdstorm_in_parts(self) -> Iterator[Any]:
        capacity, self._batch_acc = self._mdstorm_queue(), []
        self._shuffling_buffer = (
            row_buffers.RandomShufflingBuffer(capacity, capacity - 1, _ANY)
            if capacity
            else row_buffers.NoopShufflingBuffer()
        )
        keys: Sequence[Any] = ()
        for item in self.reader:
            rows: list[Any]
            if self.reader.batched_output:  # rows are tuples
                columns = torch_columns.arrays_of(item)
                keys, rows = tuple(columns), list(zip(*columns.values(), strict=True))
            else:
                row = torch_columns.row_for_torch(item)
                keys, rows = tuple(row), [row]
            self._shuffling_buffer.add_many(rows)
            yield from self._yield_batches(keys)
        self._shuffling_buffer.finish()
        yield from self._yield_batches(keys)
        if self._batch_acc:
            yield self._mdstorm_collated(self._batch_acc)

    def _yield_batches(self, keys: Sequence[Any]) -> Iterator[Any]:
        """Yield batches while the shuffling buffer provides rows.

        Parameters
        ----------
        keys : sequence of str
            Field names for the rows in the buffer, if the rows are tuples.
        """
        while self._shuffling_buffer.can_retrieve():
            row = self._shuffling_buffer.retrieve()
            if not isinstance(row, Mapping):
                row = dict(zip(keys, row, strict=True))
            self._batch_acc.append(row)
            if len(self._batch_acc) == self.batch_size:
                batch, self._batch_acc = self._batch_acc, []
                yield self._mdstorm_collated(batch)


class ColumnLoader(ReaderLoader):
    """A loader that yields batches of columns, which `transform_fn` turns into tensors."""

    transform_fn: Callable[[Any], Any]

    def _mdstorm_of_items(self, batch_size: int) -> Iterator[Any]:
        parts: Iterator[torch_columns.Columns] = map(self._mdstorm_tensors, self._mdstorm_parts())
        if self._mdstorm_queue():
            parts = torch_columns.shuffled(
                parts, self._mdstorm_queue(), lambda rows: torch.randperm(rows).numpy()
            )
        return torch_columns.cut(parts, batch_size)

    def _mdstorm_parts(self) -> Iterator[torch_columns.Columns]:
        """Yield columns for successive groups of rows."""
        if self.reader.batched_output:
            for item in self.reader:
                yield torch_columns.tensors_of(item)
            return
        rows = map(torch_columns.row_for_torch, self.reader)
        while part := list(islice(rows, ROWS_AT_A_TIME)):
            yield torch_columns.collate_rows(part)

    def _mdstorm_tensors(self, columns: torch_columns.Columns) -> torch_columns.Columns:
        tensors = {
            name: torch_columns.only_tensor(values, name) for name, values in columns.items()
        }
        return {n: torch.as_tensor(self.transform_fn(t.numpy())) for n, t in tensors.items()}


def tensors(
    reader: Reader,
    options: loaders.ReaderOptions,
    convert: Callable[[Values, Column | None, str], tensor_loaders.TorchValues] | None = None,
) -> loaders.Convert:
    """Return a converter from blocks to tensors that applies `convert` to each column.

    The default conversion turns columns that PyTorch has no type for into lists.
    """
    convert = convert or _to_torch
    if reader.batched_output:
        tensor_loaders.check_columns(options)
        return partial(tensor_loaders.tensor_batches, options, convert=convert)
    return lambda blocks: tensor_loaders.tensor_batches(
        options, _without_nulls(blocks), convert=convert
    )


def transformed(
    reader: Reader, options: loaders.ReaderOptions, function: Callable[[Any], Any]
) -> loaders.Convert:
    """Return a converter from blocks to tensors that applies the user's function to arrays."""

    def to_tensor(values: Values, column: Column | None, name: str) -> tensor_loaders.TorchValues:
        tensor = torch_columns.only_tensor(_to_torch(values, column, name), name)
        return torch.as_tensor(function(tensor.numpy()))

    return tensors(reader, options, to_tensor)


def collated(reader: Reader, collate: tensor_loaders.Collate) -> loaders.Convert:
    """Return a converter from blocks to batches that `collate` creates from lists of rows."""

    def of_rows(batch: Batch) -> Any:
        found = reader._mdstorm_items_of(batch)
        if reader.batched_output:
            return collate(torch_columns.rows_of_columns(torch_columns.arrays_of(found)))
        return collate(list(map(torch_columns.row_for_torch, found)))

    return each_batch(of_rows)


def _to_torch(values: Values, column: Column | None, name: str) -> tensor_loaders.TorchValues:
    if column is None and isinstance(values, np.ndarray):
        return torch_columns.column_to_torch(values, name)  # a transform may have returned objects
    if column is not None and column.is_array and column.value_shape is None:
        # Remove the Spark type, which would turn the column into lists, so that arrays of the same
        # shape become one tensor.
        column = replace(column, spark_type=None)
    return tensor_loaders.to_torch(values, column, name)


def _without_nulls(blocks: Iterator[Block]) -> Iterator[Block]:
    """Yield the blocks; raise NullValueError if a block contains nulls."""
    for block in blocks:
        counts = {}
        for name, values in block.batch.items():
            if isinstance(values, pa.Array):
                counts[name] = int(values.null_count)
            elif values.dtype == object:
                counts[name] = sum(value is None for value in values)
        torch_columns.refuse_nulls_in_rows({name: count for name, count in counts.items() if count})
        yield block
