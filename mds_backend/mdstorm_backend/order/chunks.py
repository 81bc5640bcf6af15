"""Chunks of samples in reading order, and windows of shards whose rows are permuted together.

A sampler yields chunks, which readers cut into batches. A `Chunk` is a range of sample numbers
where rows are read in stored order, an array of numbers, or `RowsOnDemand`, whose order is computed
when a block is filled. Such rows come from a `Window`: consecutive shards of a lane, few enough to
be kept open together, whose rows are shuffled by one `Permutation`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mdstorm_backend.base import cached_property

#: Up to this many numbers, a permutation is drawn as a whole, in a millisecond or two.
_FEW = 1 << 17
#: Rounds of the Feistel network, each of which replaces both coordinates of a number.
_ROUNDS = 3

_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ShardRows:
    """The shard and the row of each of some samples, in any order.

    Attributes
    ----------
    shards : numpy.ndarray
        int64, numbers of the shards that hold the samples.
    firsts : numpy.ndarray
        int64, number of the first sample of each shard.
    owners : numpy.ndarray
        For each sample, the position of its shard in `shards`. Of a short unsigned type if that
        is enough, because NumPy's stable sort is a radix sort then.
    rows : numpy.ndarray
        int64, for each sample, its row within the shard.
    """

    shards: npt.NDArray[np.int64]
    firsts: npt.NDArray[np.int64]
    owners: npt.NDArray[np.integer[Any]]
    rows: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def numbers(self) -> npt.NDArray[np.int64]:
        """The sample numbers in the dataset, int64."""
        found: npt.NDArray[np.int64] = self.firsts[self.owners] + self.rows
        return found


def short_type(count: int) -> np.dtype[Any]:
    """Return the dtype for numbers below `count` with the fastest stable sort."""
    return np.dtype(np.uint8 if count <= 1 << 8 else np.uint16 if count <= 1 << 16 else np.int64)


@dataclass(frozen=True)
class RowsOnDemand:
    """Samples whose order is computed when they are read.

    Attributes
    ----------
    find : callable
        Returns the shards and rows of the samples at some positions.
    part : range
        The positions of these samples.
    """

    find: Callable[[range], ShardRows]
    part: range

    def __len__(self) -> int:
        return len(self.part)

    def __getitem__(self, chosen: slice) -> RowsOnDemand:
        return RowsOnDemand(self.find, self.part[chosen])

    def found(self) -> ShardRows:
        """Return the shards and rows of the samples."""
        return self.find(self.part)


#: Samples in reading order, by number or as rows of shards. A range is read at memory speed.
Chunk: TypeAlias = range | npt.NDArray[np.int64] | RowsOnDemand


def numbers_of(chunk: Chunk) -> list[int]:
    """Return the sample numbers of a chunk."""
    if isinstance(chunk, range):
        return list(chunk)
    found = chunk.found().numbers if isinstance(chunk, RowsOnDemand) else chunk
    numbers: list[int] = found.tolist()
    return numbers


class Permutation:
    """A permutation of the numbers below `size`, any part of which can be computed on its own.

    Small permutations are drawn as a whole. In large ones the numbers are the cells of a grid with
    about as many rows as columns, and go through a Feistel network: each row of the grid is rotated
    by a random distance from a table, then each column, and so on. Six such steps are hard to tell
    from a permutation drawn at random (Patarin, "Security of random Feistel schemes with 5 or more
    rounds", 2004). A table is as long as a side of the grid and stays in the processor's cache, so
    this takes at most half the time of drawing.

    Parameters
    ----------
    size : int
        How many numbers are permuted.
    generator : numpy.random.Generator
        Draws the permutation, or the tables.
    """

    def __init__(self, size: int, generator: np.random.Generator) -> None:
        self._size = size
        self._drawn = generator.permutation(size) if size <= _FEW else None
        if self._drawn is not None:
            return
        self._bits = (size.bit_length() + 1) // 2
        columns, rows = 1 << self._bits, -(-size >> self._bits)
        self._steps = [
            (generator.integers(columns, size=rows), generator.integers(rows, size=columns))
            for _ in range(_ROUNDS)
        ]
        #: Wraps a row that was rotated past the end: faster than comparing and subtracting.
        self._wrapped = np.tile(np.arange(rows), 2)

    def numbers(self, part: range) -> _Numbers:
        """Return the permuted numbers at some positions: int64, do not write to them."""
        if self._drawn is not None:
            return self._drawn[part.start : part.stop]
        numbers = self._permuted(np.arange(part.start, part.stop))
        # The grid has up to one row more than there are numbers.
        while len(outside := np.flatnonzero(numbers >= self._size)):
            numbers[outside] = self._permuted(numbers[outside])
        return numbers

    def _permuted(self, cells: _Numbers) -> _Numbers:
        last_column = (1 << self._bits) - 1
        row, column = cells >> self._bits, cells & last_column
        for of_rows, of_columns in self._steps:
            column += of_rows.take(row, mode="clip")
            column &= last_column
            row += of_columns.take(column, mode="clip")
            row = self._wrapped.take(row, mode="clip")
        row <<= self._bits
        row |= column
        return row


@dataclass(frozen=True, eq=False)
class Window:
    """Consecutive parts of shards whose rows are permuted together.

    Attributes
    ----------
    begin : int
        Number of rows of the lane before the window.
    shards : numpy.ndarray
        int64, number of the shard of each part.
    firsts : numpy.ndarray
        int64, number of the first sample of that shard.
    starts, sizes : numpy.ndarray
        int64, number of the first sample of each part, and how many samples it has.
    seed : tuple of int
        Seeds the permutation.
    """

    begin: int
    shards: _Numbers
    firsts: _Numbers
    starts: _Numbers
    sizes: _Numbers
    seed: tuple[int, ...]

    @cached_property
    def _ends(self) -> _Numbers:
        return np.cumsum(self.sizes)

    def __len__(self) -> int:
        return int(self._ends[-1])

    def rows(self, part: range) -> ShardRows:
        """Return the samples at some positions of the permuted window."""
        rows = self._permutation.numbers(part)
        owners = self._owners(rows)
        return ShardRows(self.shards, self.firsts, owners, rows - self._offsets[owners])

    @cached_property
    def _offsets(self) -> _Numbers:
        """For each part, a row's number in the window minus its number in the shard."""
        return self._ends - self.sizes + self.firsts - self.starts

    @cached_property
    def _permutation(self) -> Permutation:
        return Permutation(len(self), np.random.default_rng(self.seed))

    def _owners(self, rows: _Numbers) -> npt.NDArray[np.integer[Any]]:
        """Return which part each of some rows belongs to."""
        shift, owners_of = self._coarse
        if not shift:
            return owners_of.take(rows, mode="clip")
        owners = owners_of.take(rows >> shift, mode="clip")
        while (beyond := rows >= self._ends.take(owners, mode="clip")).any():
            owners += beyond
        return owners

    @cached_property
    def _coarse(self) -> tuple[int, npt.NDArray[np.integer[Any]]]:
        """A coarse index: a shift, and for every 2^shift rows the part that holds the first."""
        most = max(_FEW, 4 * len(self.shards))
        shift = max((len(self) - 1).bit_length() - most.bit_length() + 1, 0)
        every = np.arange(0, len(self), 1 << shift)
        owners = np.searchsorted(self._ends, every, side="right")
        return shift, owners.astype(short_type(len(self.shards)))
