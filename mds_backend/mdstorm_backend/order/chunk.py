"""`Chunk`: samples in reading order.

A chunk is a range of sample numbers, if rows are read in stored order; an array of numbers; or
`RowsOnDemand`, whose order is computed when a block is filled. Those are rows of a `ShardWindow`: a
few consecutive shards that can be kept open together, whose rows one `Permutation` shuffles. If
several windows are read in turns, a chunk is `RowsInTurn`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from mdstorm_backend.base import cached_property

#: A permutation of up to this many numbers is drawn as a whole, in a millisecond or two.
FEW_NUMBERS = 1 << 17
#: Rounds of the Feistel network, each of which replaces both coordinates of a number.
_ROUNDS = 3

#: Numbers of samples or rows.
Numbers: TypeAlias = npt.NDArray[np.int64]


@dataclass(frozen=True)
class ShardRows:
    """The shard and row of each sample in a selection, in any order.

    Attributes
    ----------
    shards : numpy.ndarray
        int64, numbers of the shards that hold the samples.
    firsts : numpy.ndarray
        int64, number of each shard's first sample.
    owners : numpy.ndarray
        For each sample, the position of its shard in `shards`. A short unsigned type is used if
        possible, because NumPy's stable sort is then a radix sort.
    rows : numpy.ndarray
        int64, for each sample, its row within the shard.
    """

    shards: npt.NDArray[np.int64]
    firsts: npt.NDArray[np.int64]
    owners: npt.NDArray[np.integer[Any]]
    rows: npt.NDArray[np.int64]

    def __getitem__(self, chosen: slice) -> ShardRows:
        return replace(self, owners=self.owners[chosen], rows=self.rows[chosen])

    @property
    def numbers(self) -> npt.NDArray[np.int64]:
        """The sample numbers in the dataset, int64."""
        found: npt.NDArray[np.int64] = self.firsts[self.owners] + self.rows
        return found

    @cached_property
    def is_sorted(self) -> bool:
        """Whether samples are grouped by shard."""
        return bool((self.owners[1:] >= self.owners[:-1]).all())

    @cached_property
    def places(self) -> npt.NDArray[np.int64]:
        """Indices that stably sort the samples by shard."""
        return np.argsort(self.owners, kind="stable")

    @cached_property
    def groups(self) -> list[tuple[int, int, int]]:
        """Each owner of samples, with their range (start, stop) when sorted by shard."""
        if len(self.shards) == 1 and len(self.rows):
            return [(0, 0, len(self.rows))]
        counts = np.bincount(self.owners, minlength=1)
        present = np.flatnonzero(counts)
        ends = np.cumsum(counts[present])
        spans = (present.tolist(), (ends - counts[present]).tolist(), ends.tolist())
        return list(zip(*spans, strict=True))


def short_type(count: int) -> np.dtype[Any]:
    """Return the dtype in which a stable sort of numbers below `count` is fastest."""
    return np.dtype(np.uint8 if count <= 1 << 8 else np.uint16 if count <= 1 << 16 else np.int64)


def in_ranges(numbers: Numbers, starts: Numbers, sizes: Numbers) -> tuple[Numbers, Numbers]:
    """Return where ascending `numbers` are in ranges, and the range that each of these is in."""
    lows = np.searchsorted(numbers, starts)
    counts = np.searchsorted(numbers, starts + sizes) - lows
    owners = np.repeat(np.arange(len(counts)), counts)
    return np.arange(len(owners)) + (lows - np.cumsum(counts) + counts)[owners], owners


@dataclass(frozen=True, eq=False)
class ShardWindow:
    """Consecutive parts of shards whose rows are permuted together.

    Attributes
    ----------
    shards : numpy.ndarray
        int64, number of each part's shard.
    firsts : numpy.ndarray
        int64, number of the first sample in that shard.
    starts, sizes : numpy.ndarray
        int64, number of each part's first sample, and number of samples in it.
    seed : tuple of int
        Seeds the permutation.
    """

    shards: Numbers
    firsts: Numbers
    starts: Numbers
    sizes: Numbers
    seed: tuple[int, ...]

    @cached_property
    def _ends(self) -> Numbers:
        return np.cumsum(self.sizes)

    def __len__(self) -> int:
        return int(self._ends[-1])

    def rows(self, part: range) -> ShardRows:
        """Return the samples at the given positions in the permuted window."""
        rows = self._permutation.numbers(part)
        owners = self._owners(rows)
        return ShardRows(self.shards, self.firsts, owners, rows - self._offsets[owners])

    def places(self, samples: Numbers) -> tuple[Numbers, Numbers]:
        """Return which of the ascending `samples` are in the window, and their positions in it."""
        at, owners = in_ranges(samples, self.starts, self.sizes)
        if not len(at):  # the permutation is not needed
            return at, at
        found = samples[at]
        return found, self._permutation.places(found - self.firsts[owners] + self._offsets[owners])

    @cached_property
    def _offsets(self) -> Numbers:
        """For each part, a row's number in the window minus its number in the shard."""
        return self._ends - self.sizes + self.firsts - self.starts

    @cached_property
    def _permutation(self) -> Permutation:
        return Permutation(len(self), np.random.default_rng(self.seed))

    def _owners(self, rows: Numbers) -> npt.NDArray[np.integer[Any]]:
        """Return the number of the part that each row belongs to."""
        shift, owners_of = self._coarse
        if not shift:
            return owners_of.take(rows, mode="clip")
        owners = owners_of.take(rows >> shift, mode="clip")
        while (beyond := rows >= self._ends.take(owners, mode="clip")).any():
            owners += beyond
        return owners

    @cached_property
    def _coarse(self) -> tuple[int, npt.NDArray[np.integer[Any]]]:
        """A coarse index: a shift, and the parts that contain every 2^shift-th row."""
        most = max(FEW_NUMBERS, 4 * len(self.shards))
        shift = max((len(self) - 1).bit_length() - most.bit_length() + 1, 0)
        every = np.arange(0, len(self), 1 << shift)
        owners = np.searchsorted(self._ends, every, side="right")
        return shift, owners.astype(short_type(len(self.shards)))


class Permutation:
    """A permutation of the numbers below `size`, any part of which can be computed on its own.

    Small permutations are drawn as a whole. In large ones, the numbers are the cells of a grid with
    about as many rows as columns, and go through a Feistel network: each row of the grid is rotated
    by a random distance from a table, then each column, and so on. Six such steps are hard to tell
    apart from a randomly drawn permutation (Patarin, "Security of random Feistel schemes with 5 or
    more rounds", 2004). A table is as long as a side of the grid and stays in the processor's
    cache, so this takes at most half as long as drawing.

    Parameters
    ----------
    size : int
        Number of numbers to permute.
    generator : numpy.random.Generator
        Draws the permutation, or the tables.
    """

    def __init__(self, size: int, generator: np.random.Generator) -> None:
        self._size = size
        self._drawn = generator.permutation(size) if size <= FEW_NUMBERS else None
        if self._drawn is not None:
            return
        self._bits = (size.bit_length() + 1) // 2
        columns, rows = 1 << self._bits, -(-size >> self._bits)
        self._steps = [
            (generator.integers(columns, size=rows), generator.integers(rows, size=columns))
            for _ in range(_ROUNDS)
        ]
        #: Table that wraps rows rotated past the end, faster than comparing and subtracting.
        self._wrapped = np.tile(np.arange(rows), 2)

    def numbers(self, part: range) -> Numbers:
        """Return the permuted numbers at the given positions, as int64; do not modify them."""
        if self._drawn is not None:
            return self._drawn[part.start : part.stop]
        numbers = self._permuted(np.arange(part.start, part.stop))
        # The last row of the grid may be partly empty. A number that lands there is permuted again.
        while len(outside := np.flatnonzero(numbers >= self._size)):
            numbers[outside] = self._permuted(numbers[outside])
        return numbers

    def places(self, numbers: Numbers) -> Numbers:
        """Return the positions of some numbers, each once: the inverse of the method `numbers`."""
        if self._drawn is not None:
            is_wanted = np.zeros(self._size, np.bool_)  # faster than to invert the permutation
            is_wanted[numbers] = True
            found = np.flatnonzero(is_wanted[self._drawn])
            places = np.empty(len(numbers), np.int64)
            places[np.argsort(numbers)] = found[np.argsort(self._drawn[found])]
            return places
        places = self._unpermuted(numbers)
        while len(outside := np.flatnonzero(places >= self._size)):
            places[outside] = self._unpermuted(places[outside])
        return places

    def _unpermuted(self, cells: Numbers) -> Numbers:
        last_column = (1 << self._bits) - 1
        row, column = cells >> self._bits, cells & last_column
        num_rows = len(self._wrapped) // 2
        for of_rows, of_columns in reversed(self._steps):
            row = (row - of_columns[column]) % num_rows
            column = (column - of_rows[row]) & last_column
        return (row << self._bits) | column

    def _permuted(self, cells: Numbers) -> Numbers:
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


class Window(Protocol):
    """Samples of a few shards that can be kept open together, such as a `ShardWindow`."""

    @property
    def shards(self) -> Numbers:
        """Numbers of the shards."""

    def __len__(self) -> int: ...

    def rows(self, part: range) -> ShardRows:
        """Return the samples at the given positions."""

    def places(self, samples: Numbers) -> tuple[Numbers, Numbers]:
        """Return which of the ascending `samples` are in the window, and their positions in it."""


@dataclass(frozen=True)
class RowsOnDemand:
    """Samples of a window, whose order is computed when they are read.

    Attributes
    ----------
    window : Window
        The window that holds the samples.
    part : range
        Their positions in the permuted window.
    """

    window: Window
    part: range

    def __len__(self) -> int:
        return len(self.part)

    def __getitem__(self, chosen: slice) -> RowsOnDemand:
        return RowsOnDemand(self.window, self.part[chosen])

    def found(self) -> ShardRows:
        """Return the shards and rows of the samples."""
        return self.window.rows(self.part)


@dataclass(frozen=True)
class RowsInTurn:
    """Samples of several parts of an epoch that are read in turns.

    Attributes
    ----------
    numbers : numpy.ndarray
        int64, numbers of the samples.
    shards : numpy.ndarray
        int64, numbers of the shards of these parts' windows, which should stay open.
    """

    numbers: Numbers
    shards: Numbers

    def __len__(self) -> int:
        return len(self.numbers)

    def __getitem__(self, chosen: slice) -> RowsInTurn:
        return RowsInTurn(self.numbers[chosen], self.shards)


#: Samples in reading order, by number or as rows in shards. A range is read at memory speed.
Chunk: TypeAlias = range | npt.NDArray[np.int64] | RowsOnDemand | RowsInTurn


def numbers_of(chunk: Chunk) -> npt.NDArray[np.int64]:
    """Return the numbers of samples, int64."""
    if isinstance(chunk, RowsOnDemand):
        return chunk.found().numbers
    if isinstance(chunk, RowsInTurn):
        return chunk.numbers
    return np.arange(chunk.start, chunk.stop) if isinstance(chunk, range) else chunk
