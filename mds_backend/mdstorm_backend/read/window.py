"""A window: parts of shards whose rows are read in stored order or permuted together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from mdstorm_backend.base.cached_property import cached_property
from mdstorm_backend.read.mds_shard import MDSShard
from mdstorm_backend.read.shard import Shard

#: Up to so many sources, comparing with each is faster than searching and sorting.
_FEW_SOURCES = 16

Positions: TypeAlias = slice | npt.NDArray[np.int64]


@dataclass(frozen=True)
class Source:
    """The samples `start` to `stop` of an open shard, or of one on its way that nobody permutes.

    `number` is the number of the first of them in the dataset; -1 for samples that a transform has
    made.
    """

    shard: Shard
    start: int
    stop: int
    number: int = -1


@dataclass(frozen=True)
class Selection:
    """Samples of one shard and the places of a block that they fill.

    Both are slices, or both are int64 arrays of the same length, or `rows` alone is an array.
    """

    shard: Shard
    rows: Positions
    positions: Positions


@dataclass(frozen=True)
class Located:
    """Where rows lie that come in any order.

    Attributes
    ----------
    shards : sequence of Shard
        Shards by number.
    owners : numpy.ndarray
        Number of the shard that holds each row; unsigned where a short type is enough, whose stable
        sort is a radix sort.
    rows : numpy.ndarray
        int64, its row there.
    """

    shards: Sequence[Shard]
    owners: npt.NDArray[np.integer[Any]]
    rows: npt.NDArray[np.int64]

    @cached_property
    def is_sorted(self) -> bool:
        """Whether the shards come one after the other, so that each fills consecutive rows."""
        return bool((self.owners[1:] >= self.owners[:-1]).all())

    @cached_property
    def places(self) -> npt.NDArray[np.int64]:
        """Where the rows stand here that come one after the other when sorted by shard."""
        return np.argsort(self.owners, kind="stable")

    @cached_property
    def groups(self) -> list[tuple[Shard, int, int]]:
        """Each shard that holds any row, and which of the sorted ones: from, to."""
        if len(self.shards) == 1 and len(self.rows):
            return [(self.shards[0], 0, len(self.rows))]
        counts = np.bincount(self.owners, minlength=1)
        present = np.flatnonzero(counts)
        ends = np.cumsum(counts[present])
        spans = zip(present.tolist(), (ends - counts[present]).tolist(), ends.tolist(), strict=True)
        return [(self.shards[number], first, last) for number, first, last in spans]

    @property
    def by_shard(self) -> Iterator[tuple[Shard, npt.NDArray[np.int64]]] | None:
        """Each of a few shards, and where its rows stand here; None for many, which are sorted."""
        if len(self.shards) > _FEW_SOURCES:
            return None
        found = (np.flatnonzero(self.owners == number) for number in range(len(self.shards)))
        return zip(self.shards, found, strict=True)

    def selections(self, position: int) -> Iterator[Selection]:
        """Say for each shard which of its rows are wanted, to be put at `position` of a block."""
        for shard, first, last in self.groups:
            if self.is_sorted:
                filled = slice(position + first, position + last)
                yield Selection(shard, _as_slice(self.rows[first:last]), filled)
            else:
                chosen = self.places[first:last]
                yield Selection(shard, self.rows[chosen], chosen + position)


def short_type(count: int) -> np.dtype[Any]:
    """Return a dtype for numbers below `count`, the shortest one whose stable sort is fast."""
    return np.dtype(np.uint8 if count <= 1 << 8 else np.uint16 if count <= 1 << 16 else np.int64)


def _as_slice(rows: npt.NDArray[np.int64]) -> Positions:
    """Consecutive rows as a slice, which reads them without an index."""
    first, last = int(rows[0]), int(rows[-1])
    if last - first + 1 == len(rows) and bool((np.diff(rows) == 1).all()):
        return slice(first, last + 1)
    return rows


class RowWindow(Protocol):
    """Rows as one sequence, wherever they lie."""

    @property
    def record_dtype(self) -> np.dtype[np.void] | None:
        """Dtype of a sample if all shards hold records of one dtype, else None."""

    def __len__(self) -> int: ...

    def select(self, start: int, stop: int, position: int) -> Iterator[Selection]:
        """Say where the rows `start` to `stop` lie, to be put at `position` of a block.

        The positions of all selections are slices, or those of all are arrays.
        """

    def located(self, start: int, stop: int) -> Located | None:
        """Say where the rows `start` to `stop` lie; None where they come in stored order."""

    def numbers(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        """Numbers in the dataset of the rows `start` to `stop`."""


class Window:
    """Rows of several sources as one sequence.

    Parameters
    ----------
    sources : sequence of Source
        Where the rows come from.
    permutation : numpy.ndarray or None
        Their order, int64 of as many rows; None for the order of the sources.
    """

    def __init__(
        self, sources: Sequence[Source], permutation: npt.NDArray[np.int64] | None
    ) -> None:
        self.sources = tuple(sources)
        self._permutation = permutation
        self._bounds = np.cumsum([0] + [source.stop - source.start for source in sources])

    def __len__(self) -> int:
        return int(self._bounds[-1])

    @cached_property
    def record_dtype(self) -> np.dtype[np.void] | None:
        """Dtype of a sample if all shards hold records of one dtype, else None.

        Every block asks for it, and a window may have thousands of shards.
        """
        return record_dtype_of(source.shard for source in self.sources)

    def select(self, start: int, stop: int, position: int) -> Iterator[Selection]:
        """Say where the rows `start` to `stop` lie, to be put at `position` of a block."""
        located = self.located(start, stop)
        return (
            self._in_order(start, stop, position)
            if located is None
            else located.selections(position)
        )

    def located(self, start: int, stop: int) -> Located | None:
        """Say where the rows `start` to `stop` lie; None where they come in stored order."""
        if self._permutation is None:
            return None
        chosen = self._permutation[start:stop]
        owners = self._owners(chosen)
        return Located(self._shards, owners, chosen + self._shifts[owners])

    @cached_property
    def _shards(self) -> tuple[Shard, ...]:
        return tuple(source.shard for source in self.sources)

    @cached_property
    def _shifts(self) -> npt.NDArray[np.int64]:
        """What makes a row of the window one of its source's shard."""
        starts = np.array([source.start for source in self.sources], np.int64)
        shifts: npt.NDArray[np.int64] = starts - self._bounds[:-1]
        return shifts

    def _owners(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.integer[Any]]:
        """Number of the source of each row."""
        count = len(self.sources)
        if count > _FEW_SOURCES:
            owners = np.searchsorted(self._bounds, rows, side="right") - 1
            return owners.astype(short_type(count))
        few = np.zeros(len(rows), np.uint8)
        for bound in self._bounds[1:-1]:
            few += rows >= bound
        return few

    def numbers(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        """Numbers in the dataset of the rows `start` to `stop`."""
        rows = (
            np.arange(start, stop) if self._permutation is None else self._permutation[start:stop]
        )
        owner = np.searchsorted(self._bounds, rows, side="right") - 1
        first = np.array([source.number for source in self.sources])
        numbers: npt.NDArray[np.int64] = rows - self._bounds[owner] + first[owner]
        return numbers

    def _in_order(self, start: int, stop: int, position: int) -> Iterator[Selection]:
        for source, begin in zip(self.sources, self._bounds[:-1], strict=True):
            size = source.stop - source.start
            first, last = max(start - begin, 0), min(stop - begin, size)
            if first < last:
                source.shard.wait_for(int(source.start + last))
                begin_at = int(position + begin + first - start)
                yield Selection(
                    source.shard,
                    slice(int(source.start + first), int(source.start + last)),
                    slice(begin_at, int(begin_at + last - first)),
                )


def record_dtype_of(shards: Iterable[Shard]) -> np.dtype[np.void] | None:
    """Return the dtype of a sample if all `shards` hold records of one dtype, else None."""
    dtypes = {_record_dtype(shard) for shard in shards}
    return dtypes.pop() if len(dtypes) == 1 else None


def _record_dtype(shard: Shard) -> np.dtype[np.void] | None:
    if not isinstance(shard, MDSShard) or shard.records is None:
        return None
    return shard.record_dtype


@dataclass(frozen=True)
class Range:
    """The rows `start` to `stop` of a window."""

    window: RowWindow
    start: int
    stop: int
