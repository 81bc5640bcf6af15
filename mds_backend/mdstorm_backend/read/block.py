"""Blocks (consecutive batches in one allocation) and the shards and rows of their samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from copy import copy
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from mdstorm_backend.base import cached_property
from mdstorm_backend.base.recorder import Cause, work
from mdstorm_backend.errors import TransformError
from mdstorm_backend.format import Batch, slice_batch
from mdstorm_backend.order.chunk import (
    Chunk,
    RowsInTurn,
    RowsOnDemand,
    ShardRows,
    numbers_of,
    short_type,
)
from mdstorm_backend.read.mds_shard import MDSShard
from mdstorm_backend.read.shard import Shard


class Transform(Protocol):
    """A function that may change the columns and rows of a batch.

    Optional attributes describe it: ``unchanged``, the set of names of the columns that it passes
    through as stored; ``leaves_out_rows``, true if it drops rows by their values; ``keeps_rows``,
    true if it returns every row in its place, however many rows it is given.
    """

    @property
    def columns(self) -> Sequence[str]:
        """Names of the columns that the transform returns."""

    def __call__(self, batch: Batch) -> Batch:
        """Return the transformed rows."""


def check_kept(given: int, returned: int) -> None:
    """Raise TransformError unless a transform that keeps rows returned as many as it was given."""
    if returned != given:
        raise TransformError(
            f"a transform function with keeps_rows=True returned {returned} rows for {given}: "
            "return one row for each row that it gets, or leave out keeps_rows"
        )


@dataclass
class Block:
    """Consecutive batches in one allocation.

    Attributes
    ----------
    sizes : list of int
        Rows of each batch.
    offsets : list of int
        The offset of each batch in its plan: see `Plan`.
    parts : list of Located
        The samples of all batches, until they are read.
    batch : Batch
        The rows of all batches, once they are read.
    content_of : callable, optional
        Returns the content of a file that the rows name, once files are requested: see
        `FileReader`.
    numbered : sequence of int, optional
        The sample numbers in the dataset, unless they follow from `parts`.
    """

    sizes: list[int] = field(default_factory=list)
    offsets: list[int] = field(default_factory=list)
    parts: list[Located] = field(default_factory=list)
    batch: Batch = field(default_factory=dict)
    content_of: Callable[[str], bytes] | None = None
    numbered: Sequence[int] | None = None

    def numbers(self) -> Sequence[int]:
        """Return the sample numbers in the dataset, for messages; empty if they are not known."""
        if self.numbered is not None:
            return self.numbered
        return [number for part in self.parts for number in part.numbers()]

    def batches(self) -> Iterator[Batch]:
        """Yield each batch as a view of the block."""
        start = 0
        for size in self.sizes:
            yield slice_batch(self.batch, start, start + size)
            start += size


#: With up to this many shards, comparing with each one is faster than searching and sorting.
FEW_SHARDS = 16

Positions: TypeAlias = slice | npt.NDArray[np.int64]
#: Shards by number, open or being opened.
OpeningShards: TypeAlias = dict[int, "Shard | Future[Any]"]
#: Samples of one shard: the shard, their rows in it, and the positions in a block that they fill.
#: Rows and positions are slices, or int64 arrays of the same length, or only the rows are an array.
Selection: TypeAlias = tuple[Shard, Positions, Positions]


class Located:
    """The samples in all or part of a chunk, and the shards and rows that hold them.

    Parameters
    ----------
    chunk : Chunk
        Sample numbers, at least one.
    bounds : numpy.ndarray
        int64, number of the first sample of each shard, then the total number of samples.
    kept : dict, optional
        Shards that stay open until all parts of a chunk have been read.
    is_first : bool
        Whether these samples are read first, so that nothing can be read while they are awaited.

    Attributes
    ----------
    shard_numbers : list of int
        The shards that hold the samples, ascending.
    numbered : Chunk
        The samples by their numbers in the dataset, if that has only chosen rows of what is stored.
    shards : sequence of Shard or Future
        Those shards, open or being opened; must be set before samples are selected.
    take : callable
        Returns the shard of a future.
    """

    def __init__(
        self,
        chunk: Chunk,
        bounds: npt.NDArray[np.int64],
        kept: OpeningShards | None = None,
        *,
        is_first: bool = False,
    ) -> None:
        if isinstance(chunk, RowsInTurn):
            chunk = chunk.numbers
        if not isinstance(chunk, (range, RowsOnDemand)):
            chunk = _as_range(chunk)
        self.chunk = self.numbered = chunk
        self.kept = kept
        self.shards: Sequence[Shard | Future[Any]] = ()
        self.take: Callable[[Future[Any]], Any] = Future.result
        self._is_first = is_first
        self._has_arrived = False
        self._found: ShardRows | None = None
        if isinstance(chunk, range):
            first = int(np.searchsorted(bounds, chunk.start, side="right")) - 1
            last = int(np.searchsorted(bounds, chunk.stop - 1, side="right")) - 1
            self._firsts = bounds[first : last + 2]
            self.shard_numbers = list(range(first, last + 1))
            return
        found = chunk.found() if isinstance(chunk, RowsOnDemand) else _found(chunk, bounds)
        self._found = _present(found)
        self.shard_numbers = self._found.shards.tolist()

    def __len__(self) -> int:
        return len(self.chunk)

    def numbers(self) -> list[int]:
        """Return the sample numbers in the dataset."""
        if isinstance(self.numbered, range):
            return list(self.numbered)
        found = self.numbered
        if isinstance(found, RowsOnDemand):
            assert self._found is not None
            found = self._found.numbers
        numbers: list[int] = found.tolist()
        return numbers

    def stored_numbers(self) -> npt.NDArray[np.int64]:
        """Return the numbers of the stored rows, which differ from `numbers` for chosen rows."""
        found = self._found if isinstance(self.chunk, RowsOnDemand) else None
        return numbers_of(self.chunk) if found is None else found.numbers

    def owners(self) -> npt.NDArray[np.int64]:
        """Return the number of each sample's shard."""
        if self._found is not None:
            shards, owners = self._found.shards, self._found.owners
        else:
            shards = np.asarray(self.shard_numbers)
            owners = np.searchsorted(self._firsts, numbers_of(self.chunk), side="right") - 1
        found: npt.NDArray[np.int64] = shards[owners]
        return found

    @cached_property
    def opened(self) -> list[Shard]:
        """The shards; waits for any that are still being opened.

        Raises
        ------
        MDStormError
            If one cannot be opened.
        """
        return [self.take(one) if isinstance(one, Future) else one for one in self.shards]

    @cached_property
    def record_dtype(self) -> np.dtype[np.void] | None:
        """Dtype of a sample if all shards hold records of one dtype, else None."""
        dtypes = {s.record_dtype if isinstance(s, MDSShard) else None for s in self.opened}
        return dtypes.pop() if len(dtypes) == 1 else None

    def __getitem__(self, chosen: slice) -> Located:
        """Return some of the samples, which share the shards."""
        other = copy(self)
        other.chunk, other.numbered = self.chunk[chosen], self.numbered[chosen]
        other._found = None if self._found is None else self._found[chosen]
        return other

    def selections(self, position: int) -> Iterator[Selection]:
        """Yield selections of the samples, which fill a block from `position` onward.

        Either all selections have slices as positions, or all have arrays.
        """
        scattered = self.scattered()
        if scattered is not None:
            for owner, start, stop in scattered.groups:
                if scattered.is_sorted:
                    rows = _as_slice(scattered.rows[start:stop])
                    filled = slice(position + start, position + stop)
                    yield self.opened[owner], rows, filled
                else:
                    chosen = scattered.places[start:stop]
                    yield self.opened[owner], scattered.rows[chosen], chosen + position
            return
        assert isinstance(self.chunk, range)
        low, high, firsts = self.chunk.start, self.chunk.stop, self._firsts
        number = int(np.searchsorted(firsts, low, side="right")) - 1
        begin = low
        while begin < high:
            first, end = int(firsts[number]), min(high, int(firsts[number + 1]))
            if begin < end:
                shard = self.opened[number]
                shard.wait_for(end - first)
                filled = slice(position + begin - low, position + end - low)
                yield shard, slice(begin - first, end - first), filled
            begin, number = end, number + 1

    def scattered(self) -> ShardRows | None:
        """Return the rows once they have arrived, by owner in `opened`; None if in stored order."""
        if self._found is not None and not self._has_arrived:
            if self._arriving:
                self._wait_for(self._found.owners, self._found.rows)
            self._has_arrived = True
        return self._found

    def _wait_for(self, owners: npt.NDArray[np.integer[Any]], rows: npt.NDArray[np.int64]) -> None:
        """Wait until rows have arrived; request those of the first samples ahead of other rows."""
        needed = [(shard, rows[owners == number]) for number, shard in self._arriving]
        requested: list[Future[bool] | None] = [None] * len(needed)
        if self._is_first:
            requested = [shard.request(np.unique(found)) for shard, found in needed]
        for (shard, found), one in zip(needed, requested, strict=True):
            with work(Cause.DOWNLOADS):
                is_there = one is not None and one.result()
            if not is_there:
                shard.wait_for(int(found.max(initial=-1)) + 1)

    @cached_property
    def _arriving(self) -> list[tuple[int, Shard]]:
        return [(number, shard) for number, shard in enumerate(self.opened) if shard.arrival]


def _found(numbers: npt.NDArray[np.int64], bounds: npt.NDArray[np.int64]) -> ShardRows:
    """Find each sample's shard and row; list all shards from the first to the last one needed."""
    first = int(np.searchsorted(bounds, numbers.min(), side="right")) - 1
    last = int(np.searchsorted(bounds, numbers.max(), side="right")) - 1
    inner = bounds[first + 1 : last + 1]
    if len(inner) < FEW_SHARDS:
        owners = np.zeros(len(numbers), np.uint8)
        for bound in inner:
            owners += numbers >= bound
    else:
        owners = np.searchsorted(inner, numbers, side="right").astype(short_type(len(inner) + 1))
    firsts = bounds[first : last + 1]
    before = firsts if len(firsts) == 1 else firsts[owners]
    return ShardRows(np.arange(first, last + 1), firsts, owners, numbers - before)


def _present(located: ShardRows) -> ShardRows:
    """Drop shards that hold none of the samples, and renumber the rest."""
    if len(located.shards) == 1:
        return located
    present = np.flatnonzero(np.bincount(located.owners, minlength=len(located.shards)))
    if len(present) == len(located.shards):
        return located
    numbers = np.empty(len(located.shards), short_type(len(present)))
    numbers[present] = np.arange(len(present))
    shards, firsts = located.shards[present], located.firsts[present]
    return ShardRows(shards, firsts, numbers[located.owners], located.rows)


def _as_range(numbers: npt.NDArray[np.int64]) -> range | npt.NDArray[np.int64]:
    """Return consecutive numbers as a range, to avoid an index array; return others unchanged."""
    first, last = int(numbers[0]), int(numbers[-1])
    if last - first + 1 == len(numbers) and bool((numbers[1:] > numbers[:-1]).all()):
        return range(first, last + 1)
    return numbers


def _as_slice(rows: npt.NDArray[np.int64]) -> Positions:
    """Return consecutive rows as a slice; return other rows unchanged."""
    found = _as_range(rows)
    return slice(found.start, found.stop) if isinstance(found, range) else found
