"""Pack columns into records, so that rows can be taken in any order.

Taking a row from many columns waits for memory once per column; from records, only once. Packing
takes as long as taking a few hundred thousand values, so it pays off for shards of which many
rows are taken.

Columns of a record that are copied together are a strip. Copying one column out of records is one
NumPy call, and so is copying many adjacent columns with values of one size: the records are then
a matrix, and the columns its transpose. One call has less overhead and keeps the GIL released for
longer.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from mdstorm_backend.format.values.batch import Batch
from mdstorm_backend.read.block import Selection
from mdstorm_backend.read.matrices import Matrix, Output, layout, matrices_of, output_name
from mdstorm_backend.read.shard import Shard

#: With fewer columns, or larger values, packing gains nothing.
_FEWEST_COLUMNS = 4
_LARGEST_VALUE = 64
#: A shard is packed once one in this many of its rows has been taken.
_PART = 8
#: Bytes of records written or split at a time.
_CHUNK_BYTES = 1 << 20

_Records = npt.NDArray[np.void]


class Packing:
    """Packs shards whose columns are decoded. Thread-safe.

    Parameters
    ----------
    columns : sequence of str
        The columns to read.
    outputs : sequence of Output, optional
        The entries of a batch, by default all columns; matrices are copied from the records.
    """

    def __init__(self, columns: Sequence[str], outputs: Sequence[Output] = ()) -> None:
        # Columns of a matrix are adjacent, in its order.
        stacked = chain.from_iterable(o for o in outputs if not isinstance(o, str))
        self._columns = tuple(dict.fromkeys([*stacked, *columns]))
        self._outputs = outputs
        self._lock = threading.Lock()
        self._rows_taken: WeakKeyDictionary[Shard, int] = WeakKeyDictionary()
        self._packed: WeakKeyDictionary[Shard, _Records] = WeakKeyDictionary()

    def gather(
        self, selections: Sequence[Selection], decoded: Sequence[Batch], total: int
    ) -> Batch | None:
        """Copy rows from packed shards; None if a shard is not packed, or their dtypes differ.

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
        """Return the records of a shard; None until enough rows were taken for packing to pay."""
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
        """Split records into columns or matrices."""
        dtype = records.dtype
        numbers = {name: str(number) for number, name in enumerate(self._columns)}
        outputs = {_numbered(output, numbers): output for output in self._outputs}
        wanted = {number: dtype[number].base for number in numbers.values()}
        matrices, columns = matrices_of(dtype, wanted, tuple(outputs))
        if matrices:
            wanted = {number: wanted[number] for number in columns}
        if not wanted and len(matrices) == 1 and matrices[0].is_whole(dtype):
            found = dict(matrices[0].split(records))
        else:
            found = _copied(records, (*strips_of(dtype, wanted), *matrices))
        names = {number: name for name, number in numbers.items()}
        names |= {output_name(output): output_name(outputs[output]) for output in outputs}
        return {names[name]: values for name, values in found.items()}


def _numbered(output: Output, numbers: Mapping[str, str]) -> Output:
    return numbers[output] if isinstance(output, str) else tuple(numbers[name] for name in output)


def _copied(records: _Records, strips: Sequence[Strip | Matrix]) -> dict[str, npt.NDArray[Any]]:
    """Copy the values of strips out of records, by name."""
    filled = [(strip, strip.empty(len(records))) for strip in strips]
    itemsize, records = records.itemsize, records.view(record_view(records.dtype, strips))
    for start, stop in _chunks(len(records), itemsize):
        for strip, memory in filled:
            strip.fill(memory, slice(start, stop), records[start:stop])
    return dict(chain.from_iterable(strip.split(memory) for strip, memory in filled))


def _packed(columns: Sequence[npt.NDArray[Any]]) -> _Records:
    """Pack columns into records with numbered fields, as column names may be any text."""
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
    """Copy the selected records to their positions."""
    dtype = packed[0].dtype
    opaque = np.dtype(f"V{dtype.itemsize}")
    block: _Records = np.empty(total, opaque)
    for selection, records in zip(selections, packed, strict=True):
        rows, places = selection.rows, selection.positions
        whole = records.view(opaque)
        if isinstance(rows, slice):
            block[places] = whole[rows]
        elif isinstance(places, slice):
            whole.take(rows, out=block[places], mode="clip")
        else:
            np.put(block, places, whole.take(rows, mode="clip"), mode="clip")
    return block.view(dtype)


def _chunks(rows: int, itemsize: int) -> list[tuple[int, int]]:
    step = max(1, _CHUNK_BYTES // max(itemsize, 1))
    return [(start, min(start + step, rows)) for start in range(0, rows, step)]


@dataclass(frozen=True)
class Strip:
    """One column, or several with adjacent values of one size in every record.

    Attributes
    ----------
    offset : int
        Byte offset of the first value in a record.
    columns : tuple of (str, numpy.dtype)
        Name and dtype of each column, in the order of the record.
    shape : tuple of int
        Shape of a value; only columns of scalars are joined.
    """

    offset: int
    columns: tuple[tuple[str, np.dtype[Any]], ...]
    shape: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Name of the first column, used as the field name of the strip."""
        return self.columns[0][0]

    @property
    def _dtype(self) -> np.dtype[Any]:
        """Unsigned integer dtype of the values' size, in which they are copied."""
        return np.dtype(f"u{self.columns[0][1].itemsize}")

    @property
    def fields(self) -> Iterator[tuple[str, Any, int]]:
        """Name, format and offset of the record field that the strip copies."""
        yield self.name, (self._dtype, (len(self.columns), *self.shape)), self.offset

    def empty(self, rows: int) -> npt.NDArray[Any]:
        """Allocate `rows` values of each column."""
        return np.empty((len(self.columns), rows, *self.shape), self._dtype)

    def fill(
        self, memory: npt.NDArray[Any], positions: slice, records: npt.NDArray[np.void]
    ) -> None:
        """Copy the values of `records`, viewed as `record_view`, to `positions` of `memory`."""
        memory[:, positions] = records[self.name].swapaxes(0, 1)

    def split(self, memory: npt.NDArray[Any]) -> Iterator[tuple[str, npt.NDArray[Any]]]:
        """Yield the name and values of each column, as views of `memory`."""
        for (name, dtype), values in zip(self.columns, memory, strict=True):
            yield name, values.view(dtype)

    def joined(self, other: Strip) -> Strip | None:
        """Return this strip joined with `other`; None unless adjacent and of one size."""
        size = self._dtype.itemsize
        if self.shape or other.shape or other._dtype.itemsize != size:
            return None
        if other.offset != self.offset + size * len(self.columns):
            return None
        return Strip(self.offset, self.columns + other.columns)


def strips_of(record: np.dtype[np.void], wanted: Mapping[str, np.dtype[Any]]) -> tuple[Strip, ...]:
    """Return the wanted columns of a record in as few strips as possible.

    Parameters
    ----------
    record : numpy.dtype
        Structured dtype of a sample.
    wanted : mapping from str to numpy.dtype
        The columns to read, and the dtype of their values or elements.
    """
    strips: list[Strip] = []
    for name, (field, offset, *_) in (record.fields or {}).items():  # in the order of their bytes
        if name not in wanted:
            continue
        strip = Strip(offset, ((name, wanted[name]),), field.shape)
        joined = strips[-1].joined(strip) if strips else None
        if joined is None:
            strips.append(strip)
        else:
            strips[-1] = joined
    return tuple(strips)


def record_view(record: np.dtype[np.void], strips: Sequence[Strip | Matrix]) -> np.dtype[np.void]:
    """Return the dtype that views records as the fields of strips and matrices."""
    fields = [field for strip in strips for field in strip.fields]
    names, formats, offsets = zip(*fields, strict=True) if fields else ((), (), ())
    return layout(names, formats, offsets, record.itemsize)
