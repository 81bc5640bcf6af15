"""A window: some pieces of shards whose rows are taken in stored order or permuted together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from mdstorm_backend.read.mds_shard import MDSShard
from mdstorm_backend.read.shard import Shard

__all__ = ["Positions", "Range", "RowWindow", "Selection", "Source", "Window", "record_dtype_of"]

#: Up to so many sources, comparing with each bound is faster than a binary search.
_FEW_SOURCES = 16

Positions: TypeAlias = slice | npt.NDArray[np.int64]


@dataclass(frozen=True)
class Source:
    """The samples `start` to `stop` of an open shard.

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


class RowWindow(Protocol):
    """Rows as one sequence, wherever they lie."""

    @property
    def record_dtype(self) -> np.dtype[np.void] | None:
        """Dtype of a sample if all shards hold records of one dtype, else None."""
        ...

    def __len__(self) -> int: ...

    def select(self, start: int, stop: int, position: int) -> Iterator[Selection]:
        """Say where the rows `start` to `stop` lie, to be put at `position` of a block.

        The positions of all selections are slices, or those of all are arrays.
        """
        ...

    def numbers(self, start: int, stop: int) -> npt.NDArray[np.int64]:
        """Numbers in the dataset of the rows `start` to `stop`."""
        ...


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
        if self._permutation is None:
            yield from self._in_order(start, stop, position)
            return
        chosen = self._permutation[start:stop]
        if len(self.sources) == 1:
            source = self.sources[0]
            whole = slice(position, position + len(chosen))
            yield Selection(source.shard, chosen + source.start, whole)
            return
        owner = self._owners(chosen)
        grouped = np.argsort(owner, kind="stable")
        counts = np.bincount(owner)
        ends = np.cumsum(counts)
        for number in np.flatnonzero(counts).tolist():
            source = self.sources[number]
            places = grouped[ends[number] - counts[number] : ends[number]]
            rows = chosen[places] - self._bounds[number] + source.start
            yield Selection(source.shard, rows, places + position)

    def _owners(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.integer[Any]]:
        """Number of the source of each row, in a type whose stable sort is a radix sort."""
        if len(self.sources) > _FEW_SOURCES:
            owners = np.searchsorted(self._bounds, rows, side="right") - 1
            return owners.astype(np.uint16) if len(self.sources) <= 1 << 16 else owners
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
