"""Gather the rows of a block from their shards.

If all shards share one fixed-size layout, whole records are gathered (see `record_gather`).
Otherwise columns are copied from shards that hold them decoded, or each shard decodes its rows and
the columns are joined (see `gather_columns`).

Taking a row from many decoded columns waits for memory once per column; from records, only once.
So columns are packed into records (see `Packing`). That takes as long as taking a few hundred
thousand values, so it pays off for shards of which many rows are taken.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from mdstorm_backend.base.allocator import keep_freed_memory
from mdstorm_backend.format import Batch, Schema, Values, num_rows, take_values
from mdstorm_backend.format.values.batch import concat_stored, concat_values, copy_values
from mdstorm_backend.read.block import Located, Positions, Selection
from mdstorm_backend.read.logical import no_values
from mdstorm_backend.read.matrices import Matrix, Strip, matrices_of, record_view, strips_of
from mdstorm_backend.read.record_gather import RecordGatherer
from mdstorm_backend.read.shard import MemoryShard, Shard
from mdstorm_backend.read.stacking import Output

#: Packing does not pay off with fewer columns or larger values.
_FEWEST_COLUMNS = 4
_LARGEST_VALUE = 64
#: A shard is packed once more than this fraction of its rows has been taken.
_PART = 1 / 8
#: Bytes of records written or split at a time.
_CHUNK_BYTES = 1 << 20

_Records = npt.NDArray[np.void]


@dataclass(eq=False)
class Gatherer:
    """Copies samples into one batch. Thread-safe.

    Parameters
    ----------
    schema : Schema
        The columns to read, in the order of the batch.
    exact_nulls : bool
        Return nulls of floating-point columns as nulls, not as NaN.
    outputs : sequence of Output, optional
        The entries that `arranged` makes from the batch: matrices may replace their columns.
    """

    schema: Schema
    exact_nulls: bool = False
    outputs: Sequence[Output] = ()

    def __post_init__(self) -> None:
        keep_freed_memory()
        self._packing = Packing(self.schema.names, self.outputs)
        #: The gatherer for records of each dtype; None if columns are gathered one by one.
        self._of_records: dict[np.dtype[np.void] | None, RecordGatherer | None] = {None: None}

    def __call__(self, parts: Sequence[Located]) -> Batch:
        """Copy the samples of `parts`, in order.

        Returns
        -------
        Batch
            Freshly allocated; NumPy columns are writable.
        """
        schema, exact_nulls = self.schema, self.exact_nulls
        if not parts:
            return {c.name: no_values(c, exact_nulls=exact_nulls) for c in schema}
        dtypes = {part.record_dtype for part in parts}
        dtype = dtypes.pop() if len(dtypes) == 1 else None
        if dtype is not None and dtype not in self._of_records:
            self._of_records[dtype] = (
                RecordGatherer(schema, dtype, exact_nulls=exact_nulls, outputs=self.outputs)
                if RecordGatherer.accepts(schema, dtype)
                else None
            )
        gather = self._of_records[dtype]
        if gather is not None:
            return gather(parts)
        return gather_columns(parts, schema.names, exact_nulls=exact_nulls, packing=self._packing)


def gather_columns(
    parts: Sequence[Located],
    columns: Sequence[str],
    *,
    exact_nulls: bool = False,
    packing: Packing | None = None,
) -> Batch:
    """Copy rows from shards of any kind, column by column or as records packed by `packing`."""
    selections: list[Selection] = []
    total = 0
    for part in parts:
        selections += part.selections(total)
        total += len(part)
    decoded: list[Batch] = []
    for shard, _, _ in selections:
        found = shard.decoded(columns, exact_nulls=exact_nulls)
        if found is None:
            return _gather_read(selections, columns, total, exact_nulls=exact_nulls)
        decoded.append(found)
    packed = None if packing is None else packing.gather(selections, decoded, total)
    if packed is not None:
        return packed
    batch: Batch = {}
    for name in columns:
        values = [whole[name] for whole in decoded]
        batch[name] = (
            _filled(selections, values, total)
            if _are_alike(values)
            else _joined(selections, values, total, name)
        )
    return batch


def _gather_read(
    selections: Sequence[Selection], columns: Sequence[str], total: int, *, exact_nulls: bool
) -> Batch:
    """Let each shard decode its own rows, and join the columns."""
    batches: list[Batch] = []
    order = np.empty(total, np.int64)
    gathered = 0
    for shard, chosen, places in selections:
        rows = np.arange(chosen.start, chosen.stop) if isinstance(chosen, slice) else chosen
        found = np.arange(len(rows))
        if not (rows[1:] > rows[:-1]).all():
            # `Shard.read` requires ascending rows without duplicates.
            rows, found = np.unique(rows, return_inverse=True)
        batches.append(shard.read(rows, columns, exact_nulls=exact_nulls))
        order[places] = found.reshape(-1) + gathered
        gathered += len(rows)
    join = _joiner(selections)
    joined = {name: join([batch[name] for batch in batches], name) for name in columns}
    if np.array_equal(order, np.arange(gathered)):
        return joined
    return {name: take_values(values, order) for name, values in joined.items()}


def _joiner(selections: Sequence[Selection]) -> Callable[[Sequence[Values], str], Values]:
    """Return a function that joins pieces of a column, whose types may differ after transforms."""
    made = any(isinstance(shard, MemoryShard) for shard, _, _ in selections)
    return concat_values if made else concat_stored


def _are_alike(parts: Sequence[Values]) -> bool:
    kinds = {
        (part.dtype, part.shape[1:]) if isinstance(part, np.ndarray) else None for part in parts
    }
    return len(kinds) == 1 and None not in kinds


def _filled(
    selections: Sequence[Selection], parts: Sequence[npt.NDArray[Any]], total: int
) -> npt.NDArray[Any]:
    """Copy rows directly to their positions."""
    first = parts[0]
    filled: npt.NDArray[Any] = np.empty((total, *first.shape[1:]), first.dtype)
    for (_, rows, places), part in zip(selections, parts, strict=True):
        if isinstance(rows, slice):
            filled[places] = part[rows]
        elif isinstance(places, slice):
            part.take(rows, axis=0, out=filled[places], mode="clip")
        elif part.dtype.kind == "V" and part.ndim == 1:  # faster for records, slower for numbers
            np.put(filled, places, part.take(rows, mode="clip"), mode="clip")
        else:
            filled[places] = part.take(rows, axis=0, mode="clip")
    return filled


def _joined(
    selections: Sequence[Selection], parts: Sequence[Values], total: int, name: str
) -> Values:
    """Copy the rows of each shard, join the copies, and reorder them if needed."""
    copies = [
        copy_values(part, rows.start, rows.stop)
        if isinstance(rows, slice)
        else take_values(part, rows)
        for (_, rows, _), part in zip(selections, parts, strict=True)
    ]
    joined = _joiner(selections)(copies, name)
    if all(isinstance(places, slice) for _, _, places in selections):
        return joined
    chosen = np.empty(total, np.int64)
    gathered = 0
    for (_, _, places), copy in zip(selections, copies, strict=True):
        chosen[places] = np.arange(gathered, gathered + len(copy))
        gathered += len(copy)
    return take_values(joined, chosen)


class Packing:
    """Packs decoded columns of shards into records, to copy rows faster. Thread-safe.

    Parameters
    ----------
    columns : sequence of str
        The columns to read.
    outputs : sequence of Output, optional
        The entries of a batch, by default all columns; matrices are copied from the records.
    """

    def __init__(self, columns: Sequence[str], outputs: Sequence[Output] = ()) -> None:
        # Columns of a matrix are adjacent, in the order of the matrix.
        stacked = chain.from_iterable(o.columns for o in outputs if not isinstance(o, str))
        self._columns = tuple(dict.fromkeys([*stacked, *columns]))
        self._outputs = outputs
        self._lock = threading.Lock()
        self._rows_taken: WeakKeyDictionary[Shard, int] = WeakKeyDictionary()
        self._packed: WeakKeyDictionary[Shard, _Records] = WeakKeyDictionary()

    def gather(
        self, selections: Sequence[Selection], decoded: Sequence[Batch], total: int
    ) -> Batch | None:
        """Copy rows from packed shards; None unless all shards are packed, with the same dtype.

        Parameters
        ----------
        selections : sequence of Selection
            Which rows of which shards, and their positions; at least one.
        decoded : sequence of Batch
            All samples of the shard of each selection.
        total : int
            Rows of all selections.
        """
        if not all(map(self._may_pack, decoded)):
            return None
        found = [
            self._records(shard, rows, batch)
            for (shard, rows, _), batch in zip(selections, decoded, strict=True)
        ]
        packed = [records for records in found if records is not None]
        if len(packed) < len(found) or len({records.dtype for records in packed}) > 1:
            return None
        opaque = [records.view(f"V{records.itemsize}") for records in packed]
        return self._split(_filled(selections, opaque, total).view(packed[0].dtype))

    def _may_pack(self, batch: Batch) -> bool:
        values = [batch[name] for name in self._columns]
        return len(values) >= _FEWEST_COLUMNS and all(
            isinstance(v, np.ndarray)
            and v.dtype.kind != "O"
            and v.nbytes <= _LARGEST_VALUE * len(v)
            for v in values
        )

    def _records(self, shard: Shard, rows: Positions, batch: Batch) -> _Records | None:
        """Return a shard's records; None until enough rows have been taken to justify packing."""
        with self._lock:
            records = self._packed.get(shard)
            if records is not None or isinstance(rows, slice):
                return records
            rows_taken = self._rows_taken.get(shard, 0) + len(rows)
            self._rows_taken[shard] = rows_taken
            if rows_taken > shard.num_samples * _PART:
                records = self._packed[shard] = _packed(self._columns, batch)
            return records

    def _split(self, records: _Records) -> Batch:
        """Split records into columns or matrices."""
        dtype = records.dtype
        wanted = {name: dtype[name].base for name in self._columns}
        matrices, left = matrices_of(dtype, wanted, self._outputs)
        if matrices:
            wanted = {name: wanted[name] for name in left}
        if not wanted and len(matrices) == 1 and matrices[0].is_whole(dtype):
            return dict(matrices[0].split(records))
        strips: list[Strip | Matrix] = [*strips_of(dtype, wanted), *matrices]
        filled = [(strip, strip.empty(len(records))) for strip in strips]
        records = records.view(record_view(dtype, strips))
        for start, stop in _chunks(len(records), dtype.itemsize):
            for strip, memory in filled:
                strip.fill(memory, slice(start, stop), records[start:stop])
        return dict(chain.from_iterable(strip.split(memory) for strip, memory in filled))


def _packed(columns: Sequence[str], batch: Batch) -> _Records:
    """Pack columns into records."""
    formats = [(batch[name].dtype, batch[name].shape[1:]) for name in columns]
    # In this form of dtype, names can be any strings, even empty ones.
    dtype = np.dtype({"names": list(columns), "formats": formats})
    records = np.empty(num_rows(batch), dtype)
    for start, stop in _chunks(len(records), dtype.itemsize):
        part = records[start:stop]
        for name in columns:
            part[name] = batch[name][start:stop]
    return records


def _chunks(rows: int, itemsize: int) -> list[tuple[int, int]]:
    step = max(1, _CHUNK_BYTES // max(itemsize, 1))
    return [(start, min(start + step, rows)) for start in range(0, rows, step)]
