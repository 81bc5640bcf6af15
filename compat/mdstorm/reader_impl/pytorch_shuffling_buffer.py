"""Buffers that return batches of tensors in random order."""

from __future__ import annotations

import abc
from collections.abc import Iterable
from typing import Any

from mdstorm_backend.base import require

try:
    import torch
except ModuleNotFoundError:
    require("torch")  # says what to install
    raise

from mdstorm.reader_impl.shuffling_buffer import (
    ShufflingBufferBase,
    check_addition,
    check_retrieval,
)

__all__ = [
    "BatchedNoopShufflingBuffer",
    "BatchedRandomShufflingBuffer",
    "BatchedShufflingBufferBase",
]


class BatchedShufflingBufferBase(ShufflingBufferBase):
    """Rows go in as columns and come out in batches of another order. For one thread only.

    Parameters
    ----------
    batch_size : int
        Rows of a batch that is removed; fewer at the end.
    """

    def __init__(self, batch_size: int = 1) -> None:
        self._keys = None
        self.batch_size = batch_size

    def add_many(self, items: Iterable[Any]) -> None:
        """Add rows: tensors, arrays or lists of one length, one for each column."""
        self._add_many([torch.as_tensor(column) for column in items])

    @abc.abstractmethod
    def _add_many(self, items: list[torch.Tensor]) -> None:
        """Add rows, a tensor for each column."""


class _TensorBuffer(BatchedShufflingBufferBase):
    """Counts rows, and joins added tensors when a batch is removed."""

    def __init__(self, batch_size: int = 1) -> None:
        super().__init__(batch_size)
        #: What was added since the columns were joined.
        self._mdstorm_parts: list[list[torch.Tensor]] = []
        self._mdstorm_columns: list[torch.Tensor] = []
        self._size = 0
        self._done_adding = False

    @property
    def size(self) -> int:
        """Number of rows in the buffer."""
        return self._size

    def finish(self) -> None:
        """Allow all rows to be removed: nothing will be added any more."""
        self._done_adding = True


class BatchedNoopShufflingBuffer(_TensorBuffer):
    """Rows come out in the order in which they went in.

    Parameters
    ----------
    batch_size : int
        Rows of a batch.
    """

    def _add_many(self, items: list[torch.Tensor]) -> None:
        self._mdstorm_parts.append(items)
        self._size += len(items[0])

    def retrieve(self) -> list[torch.Tensor]:
        """Remove the first rows, and return them as a batch.

        Raises
        ------
        ShufflingBufferError
            If too few are left; also RuntimeError.
        """
        check_retrieval(self)
        if self._mdstorm_parts:
            self._mdstorm_columns = joined(self._mdstorm_columns, self._mdstorm_parts)
            self._mdstorm_parts = []
        rows = min(self.batch_size, self._size)
        batch = [column[:rows] for column in self._mdstorm_columns]
        self._mdstorm_columns = [column[rows:] for column in self._mdstorm_columns]
        self._size -= rows
        return batch

    def can_add(self) -> bool:
        """Return True."""
        return True

    def can_retrieve(self) -> bool:
        """Whether there is a batch or, after `finish`, any row."""
        return self._size > 0 if self._done_adding else self._size >= self.batch_size


class BatchedRandomShufflingBuffer(_TensorBuffer):
    """Rows come out at random, by permutations of ``torch.randperm`` as in Petastorm.

    A permutation of all rows is drawn when the first batch is removed after an addition, and used
    up batch by batch.

    Parameters
    ----------
    shuffling_buffer_capacity : int
        Rows may be added while there are fewer inside.
    min_after_retrieve : int
        How many rows the draw of a batch's last row chooses from at least, before `finish`.
    extra_capacity : int
        By how many rows a single `add_many` may exceed the capacity.
    batch_size : int
        Rows of a batch.
    """

    def __init__(
        self,
        shuffling_buffer_capacity: int,
        min_after_retrieve: int,
        extra_capacity: int = 1000,
        batch_size: int = 1,
    ) -> None:
        super().__init__(batch_size)
        self._mdstorm_capacity = shuffling_buffer_capacity
        self._mdstorm_most = shuffling_buffer_capacity + extra_capacity
        self._mdstorm_least = min_after_retrieve
        #: Numbers of the rows of the columns that are left, in the order in which they will go.
        self._mdstorm_order = torch.empty(0, dtype=torch.int64)

    def _add_many(self, items: list[torch.Tensor]) -> None:
        count = len(items[0])
        check_addition(self, count, self._mdstorm_most, is_finished=self._done_adding)
        self._mdstorm_parts.append(items)
        self._size += count

    def retrieve(self) -> list[torch.Tensor]:
        """Remove random rows, and return them as a batch.

        Raises
        ------
        ShufflingBufferError
            If too few are left; also RuntimeError.
        """
        check_retrieval(self)
        if self._mdstorm_parts:
            self._mdstorm_mix()
        rows = self._mdstorm_order[: self.batch_size]
        self._mdstorm_order = self._mdstorm_order[self.batch_size :]
        self._size -= len(rows)
        return [column[rows] for column in self._mdstorm_columns]

    def can_add(self) -> bool:
        """Whether the buffer is neither full nor finished."""
        return self._size < self._mdstorm_capacity and not self._done_adding

    def can_retrieve(self) -> bool:
        """Whether enough rows are inside or, after `finish`, any."""
        least = 1 if self._done_adding else max(self._mdstorm_least + self.batch_size - 1, 1)
        return self._size >= least

    def _mdstorm_mix(self) -> None:
        """Join remaining and new rows, and permute them."""
        left = [column[self._mdstorm_order] for column in self._mdstorm_columns]
        self._mdstorm_columns = joined(left, self._mdstorm_parts)
        self._mdstorm_parts = []
        self._mdstorm_order = torch.randperm(self._size, device=self._mdstorm_columns[0].device)


def joined(columns: list[torch.Tensor], parts: list[list[torch.Tensor]]) -> list[torch.Tensor]:
    """Append the rows of further columns to columns, of which there may be none yet."""
    pieces = [columns, *parts] if columns and len(columns[0]) else parts
    return pieces[0] if len(pieces) == 1 else list(map(torch.cat, zip(*pieces, strict=True)))
