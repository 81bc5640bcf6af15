"""Chunks: samples in the order of reading; and windows of shards, whose rows are permuted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from mdstorm_backend.base.cached_property import cached_property

#: Up to so many numbers, a permutation is drawn as a whole: it takes a millisecond or two.
_FEW = 1 << 17
#: Each round replaces both coordinates of a number.
_ROUNDS = 3

_Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ShardRows:
    """Where samples lie that come in any order.

    Attributes
    ----------
    shards : numpy.ndarray
        int64, numbers of the shards.
    firsts : numpy.ndarray
        int64, number of the first sample of each.
    owners : numpy.ndarray
        Position in `shards` of the shard that holds each sample; unsigned where a short type is
        enough, whose stable sort is a radix sort.
    rows : numpy.ndarray
        int64, its row there.
    """

    shards: npt.NDArray[np.int64]
    firsts: npt.NDArray[np.int64]
    owners: npt.NDArray[np.integer[Any]]
    rows: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def numbers(self) -> npt.NDArray[np.int64]:
        """Numbers of the samples in the dataset, int64."""
        found: npt.NDArray[np.int64] = self.firsts[self.owners] + self.rows
        return found


def short_type(count: int) -> np.dtype[Any]:
    """Return a dtype for numbers below `count`, the shortest one whose stable sort is fast."""
    return np.dtype(np.uint8 if count <= 1 << 8 else np.uint16 if count <= 1 << 16 else np.int64)


@dataclass(frozen=True)
class RowsOnDemand:
    """Samples in an order that is worked out when they are read.

    Attributes
    ----------
    find : callable
        Returns where the samples at some positions lie.
    part : range
        The positions.
    """

    find: Callable[[range], ShardRows]
    part: range

    def __len__(self) -> int:
        return len(self.part)

    def __getitem__(self, chosen: slice) -> RowsOnDemand:
        return RowsOnDemand(self.find, self.part[chosen])

    def found(self) -> ShardRows:
        """Return where the samples lie."""
        return self.find(self.part)


#: Samples in the order in which they are read, by their numbers, or as rows of shards. A range is
#: read at memory speed.
Chunk: TypeAlias = range | npt.NDArray[np.int64] | RowsOnDemand


def numbers_of(chunk: Chunk) -> list[int]:
    """Return the numbers of the samples of a chunk."""
    if isinstance(chunk, range):
        return list(chunk)
    found = chunk.found().numbers if isinstance(chunk, RowsOnDemand) else chunk
    numbers: list[int] = found.tolist()
    return numbers


class Permutation:
    """A permutation of the numbers below `size`, of which any part can be worked out by itself.

    Few numbers are drawn at once. Many are the cells of a grid with about as many rows as columns,
    and go through a Feistel network: in turn each row of the grid is rotated, by as much as a table
    of random numbers says, and each column. Six steps with random tables are hard to tell from a
    permutation that is drawn (Patarin, "Security of random Feistel schemes with 5 or more rounds",
    2004). A table is as long as a side of the grid and stays in the processor's cache, so that this
    takes half of the time of drawing, or less.

    Parameters
    ----------
    size : int
        How many numbers.
    generator : numpy.random.Generator
        Draws the numbers, or the tables.
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
        #: A row after rotating: faster than comparing and subtracting.
        self._wrapped = np.tile(np.arange(rows), 2)

    def numbers(self, part: range) -> _Numbers:
        """Return the permuted numbers at some positions; int64, and not to be written to."""
        if self._drawn is not None:
            return self._drawn[part.start : part.stop]
        numbers = self._permuted(np.arange(part.start, part.stop))
        # The grid has up to a row more than there are numbers.
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
    """Parts of shards, one after the other, whose rows are permuted together.

    Attributes
    ----------
    begin : int
        Rows of the lane before it.
    shards : numpy.ndarray
        int64, number of the shard of each part.
    firsts : numpy.ndarray
        int64, number of the first sample of that shard.
    starts, sizes : numpy.ndarray
        int64, number of the first sample of the part, and how many it has.
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
        """What a row of the window is more than the row of its shard."""
        return self._ends - self.sizes + self.firsts - self.starts

    @cached_property
    def _permutation(self) -> Permutation:
        return Permutation(len(self), np.random.default_rng(self.seed))

    def _owners(self, rows: _Numbers) -> npt.NDArray[np.integer[Any]]:
        """Return in which of the parts some rows are."""
        shift, owners_of = self._coarse
        if not shift:
            return owners_of.take(rows, mode="clip")
        owners = owners_of.take(rows >> shift, mode="clip")
        while (beyond := rows >= self._ends.take(owners, mode="clip")).any():
            owners += beyond
        return owners

    @cached_property
    def _coarse(self) -> tuple[int, npt.NDArray[np.integer[Any]]]:
        """For every so many rows, as a power of two, the part that has the first of them."""
        most = max(_FEW, 4 * len(self.shards))
        shift = max((len(self) - 1).bit_length() - most.bit_length() + 1, 0)
        every = np.arange(0, len(self), 1 << shift)
        owners = np.searchsorted(self._ends, every, side="right")
        return shift, owners.astype(short_type(len(self.shards)))
