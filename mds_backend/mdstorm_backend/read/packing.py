"""Pack columns into records, so that rows can be taken in any order.

To take a row out of many columns is to wait for the memory of each of them; out of records it is to
wait once. Packing takes as long as taking a few hundred thousand values, so that it is worth it
for shards of which many rows are taken.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from itertools import chain
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from mdstorm_backend.format.values.batch import Batch
from mdstorm_backend.read.located import Selection
from mdstorm_backend.read.shard import Shard
from mdstorm_backend.read.strips import record_view, strips_of

#: Fewer columns, or larger values, are as fast by themselves.
_FEWEST_COLUMNS = 4
_LARGEST_VALUE = 64
#: A shard is packed when a part of its rows as large as one in so many was taken.
_PART = 8
#: Bytes of records that are written or split at a time.
_CHUNK_BYTES = 1 << 20

_Records = npt.NDArray[np.void]


class Packing:
    """Packs shards whose columns are decoded. Safe to share between threads.

    Parameters
    ----------
    columns : sequence of str
        The columns of a record.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self._columns = tuple(columns)
        self._lock = threading.Lock()
        self._rows_taken: WeakKeyDictionary[Shard, int] = WeakKeyDictionary()
        self._packed: WeakKeyDictionary[Shard, _Records] = WeakKeyDictionary()

    def gather(
        self, selections: Sequence[Selection], decoded: Sequence[Batch], total: int
    ) -> Batch | None:
        """Copy rows out of packed shards; None if one of the shards is not worth being packed.

        Parameters
        ----------
        selections : sequence of Selection
            Which rows of which shards, and their places; at least one.
        decoded : sequence of Batch
            All samples of the shard of each selection.
        total : int
            Rows of all selections.
        """
        if not all(map(self._may_pack, decoded)):
            return None
        found = [
            self._records(selection, batch)
            for selection, batch in zip(selections, decoded, strict=True)
        ]
        packed = [records for records in found if records is not None]
        if len(packed) < len(found) or len({records.dtype for records in packed}) > 1:
            return None
        return self._split(_take_records(selections, packed, total))

    def _may_pack(self, batch: Batch) -> bool:
        values = [batch[name] for name in self._columns]
        return len(values) >= _FEWEST_COLUMNS and all(
            isinstance(v, np.ndarray)
            and v.dtype.kind != "O"
            and v.nbytes <= _LARGEST_VALUE * len(v)
            for v in values
        )

    def _records(self, selection: Selection, batch: Batch) -> _Records | None:
        """Return the records of a shard, once so many rows are taken that it pays."""
        shard = selection.shard
        with self._lock:
            records = self._packed.get(shard)
            if records is not None or isinstance(selection.rows, slice):
                return records
            rows_taken = self._rows_taken.get(shard, 0) + len(selection.rows)
            self._rows_taken[shard] = rows_taken
            if rows_taken * _PART > shard.num_samples:
                records = self._packed[shard] = _packed([batch[name] for name in self._columns])
            return records

    def _split(self, records: _Records) -> Batch:
        """Return the columns of some records."""
        dtype = records.dtype
        wanted = {name: dtype[name].base for name in dtype.names or ()}
        strips = [(strip, strip.empty(len(records))) for strip in strips_of(dtype, wanted)]
        records = records.view(record_view(dtype, [strip for strip, _ in strips]))
        for start, stop in _chunks(len(records), dtype.itemsize):
            for strip, memory in strips:
                strip.fill(memory, slice(start, stop), records[start:stop])
        found = dict(chain.from_iterable(strip.split(memory) for strip, memory in strips))
        return {name: found[str(number)] for number, name in enumerate(self._columns)}


def _packed(columns: Sequence[npt.NDArray[Any]]) -> _Records:
    """Return columns as records, whose fields are numbered: names may be any text."""
    fields = [(str(n), values.dtype, values.shape[1:]) for n, values in enumerate(columns)]
    records = np.empty(len(columns[0]), np.dtype(fields))
    for start, stop in _chunks(len(records), records.dtype.itemsize):
        part = records[start:stop]
        for (name, *_), values in zip(fields, columns, strict=True):
            part[name] = values[start:stop]
    return records


def _take_records(
    selections: Sequence[Selection], packed: Sequence[_Records], total: int
) -> _Records:
    """Copy records to their places."""
    dtype = packed[0].dtype
    opaque = np.dtype(f"V{dtype.itemsize}")
    block: _Records = np.empty(total, opaque)
    for selection, records in zip(selections, packed, strict=True):
        rows, places = selection.rows, selection.positions
        whole = records.view(opaque)
        chosen = whole[rows] if isinstance(rows, slice) else whole.take(rows, mode="clip")
        if isinstance(places, slice):
            block[places] = chosen
        else:
            np.put(block, places, chosen, mode="clip")
    return block.view(dtype)


def _chunks(rows: int, itemsize: int) -> list[tuple[int, int]]:
    step = max(1, _CHUNK_BYTES // max(itemsize, 1))
    return [(start, min(start + step, rows)) for start in range(0, rows, step)]
