"""Gather the rows of a block from their shards.

If all shards share one fixed-size layout, whole records are gathered (see `record_gather`).
Otherwise columns are copied from shards that hold them decoded, or each shard decodes its rows and
the columns are joined (see `gather_columns`).

Taking a row from many decoded columns waits for memory once per column; from records, only once.
So a `Gatherer` packs such columns into records. That takes as long as taking a few hundred thousand
values, so it pays off for shards of which many rows are taken.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from mdstorm_backend.base.allocator import keep_freed_memory
from mdstorm_backend.format import Batch, Schema, Values, num_rows, take_values
from mdstorm_backend.format.values.batch import concat_stored, concat_values, copy_values
from mdstorm_backend.read.block import Located, Selection
from mdstorm_backend.read.logical import no_values, view_dtype
from mdstorm_backend.read.made_columns import MadeColumn
from mdstorm_backend.read.mds_shard import MDSShard
from mdstorm_backend.read.record_gather import CHUNK_BYTES, RecordGatherer
from mdstorm_backend.read.sample_source import SampleSource
from mdstorm_backend.read.shard import MemoryShard, Shard
from mdstorm_backend.read.stacking import Output
from mdstorm_backend.storage import unchanged

#: Packing does not pay off with fewer columns or larger values.
_FEWEST_COLUMNS = 4
_LARGEST_VALUE = 64
#: A shard is packed once more than this fraction of its rows has been taken.
_PART = 1 / 8

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
    added : sequence of MadeColumn
        Make the last columns, which are not in `schema`.
    hidden : sequence of str
        Columns that are read only to make others.
    """

    schema: Schema
    exact_nulls: bool = False
    outputs: Sequence[Output] = ()
    added: Sequence[MadeColumn] = ()
    hidden: Sequence[str] = ()

    @classmethod
    def of(
        cls,
        dataset: SampleSource,
        columns: Sequence[str] | None,
        *,
        exact_nulls: bool,
        outputs: Sequence[Output] = (),
    ) -> Gatherer:
        """Return the gatherer of a dataset's columns, all of them for None."""
        names, added = dataset.select(columns), [*dataset.added.values()]
        stored = [name for name in names if name not in dataset.added]
        needed = [name for one in added for name in one.needs]
        schema = dataset.schema.select(dict.fromkeys([*stored, *needed]))
        hidden = [name for name in schema.names if name not in stored]
        return cls(schema, exact_nulls, outputs, added, hidden)

    def __post_init__(self) -> None:
        keep_freed_memory()
        # Columns of a matrix are adjacent in packed records, in the order of the matrix.
        stacked = chain.from_iterable(o.columns for o in self.outputs if not isinstance(o, str))
        self._packed_columns = tuple(dict.fromkeys([*stacked, *self.schema.names]))
        self._lock = threading.Lock()
        self._rows_taken: WeakKeyDictionary[Shard, int] = WeakKeyDictionary()
        self._packed: WeakKeyDictionary[Shard, _Records] = WeakKeyDictionary()
        #: The gatherer for stored records of each dtype; None if columns are gathered one by one.
        self._for_stored: dict[np.dtype[np.void] | None, RecordGatherer | None] = {None: None}
        #: The gatherer for packed records of each dtype.
        self._for_packed: dict[np.dtype[np.void], RecordGatherer] = {}

    def __call__(self, parts: Sequence[Located]) -> Batch:
        """Copy the samples of `parts`, in order.

        Returns
        -------
        Batch
            Freshly allocated; NumPy columns are writable.
        """
        batch = self._gather(parts)
        if self.added:
            for one in self.added:
                batch[one.column.name] = one.make(parts, batch)
            for name in self.hidden:
                del batch[name]
        return batch

    def _gather(self, parts: Sequence[Located]) -> Batch:
        schema, exact_nulls = self.schema, self.exact_nulls
        if not parts:
            return {c.name: no_values(c, exact_nulls=exact_nulls) for c in schema}
        opened = chain.from_iterable(part.opened for part in parts)
        stored = self._of_stored(parts)
        if stored is not None:  # views of files, without `Shard.read`
            maps = {shard.held for part in parts for shard in part.opened}
            with unchanged(maps):
                return stored(parts)
        gather = self._of_packed(opened)
        if gather is not None:
            return gather(parts)
        selections = _selections(parts)
        decoded = _decoded_shards(selections, schema.names, exact_nulls=exact_nulls)
        if decoded is not None and all(map(_may_pack, decoded)):
            self._pack(selections, decoded)
            gather = self._of_packed(shard for shard, _, _ in selections)
            if gather is not None:
                return gather(parts)
        total = sum(map(len, parts))
        return _gather_by_column(selections, decoded, schema.names, total, exact_nulls=exact_nulls)

    def _of_stored(self, parts: Sequence[Located]) -> RecordGatherer | None:
        """Return the gatherer for stored records; None unless all shards store them alike."""
        dtypes = {part.record_dtype for part in parts}
        dtype = dtypes.pop() if len(dtypes) == 1 else None
        if dtype is not None and dtype not in self._for_stored:
            schema, nulls = self.schema, self.exact_nulls
            viewed = {c.name: view_dtype(c) for c in schema if c.is_numpy(exact_nulls=nulls)}
            self._for_stored[dtype] = (
                RecordGatherer(
                    schema, dtype, viewed, _stored, exact_nulls=nulls, outputs=self.outputs
                )
                if RecordGatherer.accepts(schema, dtype)
                else None
            )
        return self._for_stored[dtype]

    def _of_packed(self, shards: Iterable[Shard]) -> RecordGatherer | None:
        """Return the gatherer for the shards' packed records; None unless all are packed alike."""
        dtypes = set()
        for shard in shards:
            records = self._packed.get(shard)
            if records is None:
                return None
            dtypes.add(records.dtype)
        if len(dtypes) != 1:
            return None
        dtype = dtypes.pop()
        if dtype not in self._for_packed:
            viewed = {name: dtype[name].base for name in self._packed_columns}
            packed = partial(_opaque, self._packed)
            self._for_packed[dtype] = RecordGatherer(
                self.schema, dtype, viewed, packed, outputs=self.outputs
            )
        return self._for_packed[dtype]

    def _pack(self, selections: Sequence[Selection], decoded: Sequence[Batch]) -> None:
        """Pack each shard of which enough rows have been taken, with these, to justify it."""
        for (shard, rows, _), batch in zip(selections, decoded, strict=True):
            with self._lock:
                if shard in self._packed or isinstance(rows, slice):
                    continue
                rows_taken = self._rows_taken.get(shard, 0) + len(rows)
                self._rows_taken[shard] = rows_taken
                if rows_taken > shard.num_samples * _PART:
                    self._packed[shard] = _packed(self._packed_columns, batch)


def _may_pack(decoded: Batch) -> bool:
    return len(decoded) >= _FEWEST_COLUMNS and all(
        isinstance(v, np.ndarray) and v.dtype.kind != "O" and v.nbytes <= _LARGEST_VALUE * len(v)
        for v in decoded.values()
    )


def _stored(shard: Shard) -> _Records:
    """Return the records that a shard stores, as opaque values."""
    assert isinstance(shard, MDSShard)
    return shard.records


def _opaque(packed: Mapping[Shard, _Records], shard: Shard) -> _Records:
    """Return the packed records of a shard, as opaque values."""
    return packed[shard].view(f"V{packed[shard].itemsize}")


def gather_columns(
    parts: Sequence[Located], columns: Sequence[str], *, exact_nulls: bool = False
) -> Batch:
    """Copy rows from shards of any kind, column by column."""
    selections = _selections(parts)
    decoded = _decoded_shards(selections, columns, exact_nulls=exact_nulls)
    return _gather_by_column(
        selections, decoded, columns, sum(map(len, parts)), exact_nulls=exact_nulls
    )


def _selections(parts: Sequence[Located]) -> list[Selection]:
    """Return the selections of all parts, which fill a block one after another."""
    starts = accumulate(map(len, parts), initial=0)
    found = (part.selections(start) for part, start in zip(parts, starts, strict=False))
    return list(chain.from_iterable(found))


def _decoded_shards(
    selections: Sequence[Selection], columns: Sequence[str], *, exact_nulls: bool
) -> list[Batch] | None:
    """Return all samples of the shard of each selection; None if one decodes them on request."""
    decoded: list[Batch] = []
    for shard, _, _ in selections:
        found = shard.decoded(columns, exact_nulls=exact_nulls)
        if found is None:
            return None
        decoded.append(found)
    return decoded


def _gather_by_column(
    selections: Sequence[Selection],
    decoded: Sequence[Batch] | None,
    columns: Sequence[str],
    total: int,
    *,
    exact_nulls: bool,
) -> Batch:
    """Copy columns from shards that hold them decoded; if one does not, let each decode rows."""
    if decoded is None:
        return _gather_by_shard(selections, columns, total, exact_nulls=exact_nulls)
    batch: Batch = {}
    for name in columns:
        values = [whole[name] for whole in decoded]
        batch[name] = (
            _copied(selections, values, total)
            if _are_alike(values)
            else _joined(selections, values, total, name)
        )
    return batch


def _gather_by_shard(
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
    joined = {name: concat_stored([batch[name] for batch in batches], name) for name in columns}
    if np.array_equal(order, np.arange(gathered)):
        return joined
    return {name: take_values(values, order) for name, values in joined.items()}


def _are_alike(parts: Sequence[Values]) -> bool:
    kinds = {
        (part.dtype, part.shape[1:]) if isinstance(part, np.ndarray) else None for part in parts
    }
    return len(kinds) == 1 and None not in kinds


def _copied(
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
    # Types may differ after transforms, whose shards are always decoded.
    is_made = any(isinstance(shard, MemoryShard) for shard, _, _ in selections)
    joined = (concat_values if is_made else concat_stored)(copies, name)
    if all(isinstance(places, slice) for _, _, places in selections):
        return joined
    chosen = np.empty(total, np.int64)
    gathered = 0
    for (_, _, places), copy in zip(selections, copies, strict=True):
        chosen[places] = np.arange(gathered, gathered + len(copy))
        gathered += len(copy)
    return take_values(joined, chosen)


def _packed(columns: Sequence[str], batch: Batch) -> _Records:
    """Pack columns into records."""
    formats = [(batch[name].dtype, batch[name].shape[1:]) for name in columns]
    # In this form of dtype, names can be any strings, even empty ones.
    dtype = np.dtype({"names": list(columns), "formats": formats})
    records = np.empty(num_rows(batch), dtype)
    step = max(1, CHUNK_BYTES // max(dtype.itemsize, 1))
    for start in range(0, len(records), step):
        part = records[start : start + step]
        for name in columns:
            part[name] = batch[name][start : start + step]
    return records
