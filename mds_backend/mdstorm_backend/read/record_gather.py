"""Gather fixed-size samples as opaque records.

Rows are copied whole and then split into columns, in chunks that stay in the processor's cache.
Work that only depends on the columns is done once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from mdstorm_backend.format import Batch, Column, Schema
from mdstorm_backend.order.chunk import ShardRows
from mdstorm_backend.read.block import FEW_SHARDS, Located, Positions, Selection
from mdstorm_backend.read.logical import to_logical
from mdstorm_backend.read.matrices import Matrix, Strip, matrices_of, record_view, strips_of
from mdstorm_backend.read.mds_shard import MDSShard
from mdstorm_backend.read.shard import Shard
from mdstorm_backend.read.stacking import Output

#: Bytes of records split into columns at a time. Each column reads all of them, so they should
#: roughly fit into the L2 cache.
CHUNK_BYTES = 1 << 19


class RecordGatherer:
    """Gathers rows from shards whose samples are records of the same dtype.

    Parameters
    ----------
    schema : Schema
        The columns to read, in the order of the batch.
    dtype : numpy.dtype
        Packed structured dtype of a sample.
    viewed : mapping from str to numpy.dtype or None
        The dtype that views each column's bytes as its values; None if they are converted. Columns
        that may be masked are left out.
    records : callable
        Returns the records of a shard, as opaque values.
    exact_nulls : bool
        Return nulls of floating-point columns as nulls, not as NaN.
    outputs : sequence of Output, optional
        The entries of a batch, by default all columns. Matrices are made if the bytes of their
        values need no conversion; for other matrices, the columns are returned.
    """

    def __init__(
        self,
        schema: Schema,
        dtype: np.dtype[np.void],
        viewed: Mapping[str, np.dtype[Any] | None],
        records: Callable[[Shard], npt.NDArray[np.void]],
        *,
        exact_nulls: bool = False,
        outputs: Sequence[Output] = (),
    ) -> None:
        self._records = records
        self._exact_nulls = exact_nulls
        matrices, left = matrices_of(dtype, viewed, outputs)
        if matrices:
            schema = schema.select([name for name in schema.names if name in left])
        #: Columns whose values are converted, because a view of their bytes is not enough.
        self._converted = [column for column in schema if viewed.get(column.name) is None]
        self._masked = {column.name for column in schema if column.name not in viewed}
        self._chunk_rows = max(1, CHUNK_BYTES // max(dtype.itemsize, 1))
        self._opaque = np.dtype(f"V{dtype.itemsize}")
        self._names = [*schema.names, *(matrix.name for matrix in matrices)]
        wanted = {name: viewed.get(name) or dtype[name].base for name in schema.names}
        self._strips: tuple[Strip | Matrix, ...] = (*strips_of(dtype, wanted), *matrices)
        #: Whether the batch consists of one matrix whose rows are the records.
        self._is_whole = not schema.names and len(matrices) == 1 and matrices[0].is_whole(dtype)
        #: Whether each record is read once, so that it need not stay in the cache.
        self._is_read_once = len(self._strips) == 1 and len(self._names) == 1
        self._view = record_view(dtype, self._strips)

    @staticmethod
    def accepts(schema: Schema, dtype: np.dtype[np.void]) -> bool:
        """Whether records of `dtype` have all columns, in the dataset's encodings."""
        stored = {name: dtype[name].base for name in dtype.names or ()}
        wanted = {column.name: column.parsed_encoding.dtype for column in schema}
        return all(
            value is not None and name in stored and stored[name] == value
            for name, value in wanted.items()
        )

    def __call__(self, parts: Sequence[Located]) -> Batch:
        """Copy the samples of `parts`, in order, into new arrays."""
        total = sum(map(len, parts))
        strips = [(strip, strip.empty(total)) for strip in self._strips]
        columns = dict(chain.from_iterable(strip.split(memory) for strip, memory in strips))
        batch: dict[str, Any] = {name: columns[name] for name in self._names}
        selections: list[Selection] = []
        position = 0
        for part in parts:
            for records, places in self._found(part, position, strips, selections):
                viewed = records.view(self._view)
                for strip, memory in strips:
                    strip.fill(memory, places, viewed)
            position += len(part)
        for column in self._converted:
            stored = batch[column.name]
            is_masked = column.name in self._masked
            masks = _masks(column, stored.shape, selections) if is_masked else (None, None)
            batch[column.name] = to_logical(column, stored, *masks, exact_nulls=self._exact_nulls)
        return batch

    def _found(
        self,
        part: Located,
        position: int,
        strips: Sequence[tuple[Strip | Matrix, npt.NDArray[Any]]],
        selections: list[Selection],
    ) -> Iterator[tuple[npt.NDArray[np.void], slice]]:
        """Yield records of the samples in a part, and their places in a block.

        Rows that are whole records are copied to their places here. If columns have masks, the
        part's selections are added to `selections`.
        """
        scattered = part.scattered()
        if scattered is None or scattered.is_sorted:
            for shard, rows, places in part.selections(position):
                assert isinstance(places, slice)
                if self._masked:
                    selections.append((shard, rows, places))
                yield from self._in_chunks(self._records(shard), rows, places, strips)
            return
        for start in range(0, len(part), self._chunk_rows):
            chosen = part[start : start + self._chunk_rows]
            filled = slice(position + start, position + start + len(chosen))
            scattered = chosen.scattered()
            assert scattered is not None
            if self._is_whole:
                self._gather(part.opened, scattered, strips[0][1][filled])
            else:
                records = np.empty(len(chosen), self._opaque)
                yield self._gather(part.opened, scattered, records), filled
            if self._masked:
                selections += chosen.selections(position + start)

    def _in_chunks(
        self,
        records: npt.NDArray[np.void],
        rows: Positions,
        places: slice,
        strips: Sequence[tuple[Strip | Matrix, npt.NDArray[Any]]],
    ) -> Iterator[tuple[npt.NDArray[np.void], slice]]:
        """Yield some records of one shard, and their places in a block, a few at a time."""
        if isinstance(rows, slice):
            records = records[rows]
            if self._is_read_once:
                yield records, places
                return
        for start in range(places.start, places.stop, self._chunk_rows):
            filled = slice(start, min(start + self._chunk_rows, places.stop))
            chosen = slice(filled.start - places.start, filled.stop - places.start)
            if isinstance(rows, slice):
                yield records[chosen], filled
            elif self._is_whole:
                records.take(rows[chosen], out=strips[0][1][filled], mode="clip")
            else:
                yield records.take(rows[chosen], mode="clip"), filled

    def _gather(
        self, shards: Sequence[Shard], scattered: ShardRows, records: npt.NDArray[np.void]
    ) -> npt.NDArray[np.void]:
        """Copy records in arbitrary order to `records`, shard by shard, and return `records`.

        With many shards, all records are put in place by one call, because a block may take a
        record or two from each of thousands of shards.
        """
        if len(shards) <= FEW_SHARDS:
            for owner, shard in enumerate(shards):
                places = np.flatnonzero(scattered.owners == owner)
                chosen = self._records(shard).take(scattered.rows[places], mode="clip")
                np.put(records, places, chosen, mode="clip")
            return records
        in_sequence = np.empty_like(records)
        rows = scattered.rows[scattered.places]
        for owner, first, last in scattered.groups:
            self._records(shards[owner]).take(
                rows[first:last], out=in_sequence[first:last], mode="clip"
            )
        np.put(records, scattered.places, in_sequence, mode="clip")
        return records


def _masks(
    column: Column, shape: tuple[int, ...], selections: Sequence[Selection]
) -> tuple[npt.NDArray[np.bool_] | None, npt.NDArray[np.bool_] | None]:
    """Return which rows, and which of their elements, are valid in a column of the given `shape`.

    None stands for all of them.
    """
    name, valid, elements = column.name, None, None
    if column.null_count:
        valid = np.ones(shape[0], np.bool_)
    if column.element_null_count:
        elements = np.ones((shape[0], math.prod(shape[1:])), np.bool_)
    for shard, rows, places in selections:
        assert isinstance(shard, MDSShard)
        validity = shard.validity
        if valid is not None and name in validity.rows:
            valid[places] = validity.rows[name][rows]
        if elements is not None and name in validity.elements:
            bits = validity.elements[name].reshape(shard.num_samples, -1)
            elements[places] = bits[rows]
    return valid, None if elements is None else elements.reshape(-1)
