"""Matrices: numeric columns as one array ``(rows, columns)``.

Columns of one dtype are a `Matrix`, whose rows are copied from the bytes of records without
transposing. Columns of several dtypes are read one by one, and then cast. Columns of a record
that are copied together are a `Strip`. Copying one column out of records is one NumPy call, and so
is copying many adjacent columns whose values have the same size: the records are then a matrix,
and the columns its transpose. One call has less overhead and keeps the GIL released for longer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from mdstorm_backend.base import cached_property
from mdstorm_backend.read.stacking import Output, output_name

#: Copying one run of bytes takes as long as gathering this many values by index.
_VALUES_PER_RUN = 4


@dataclass(frozen=True)
class Matrix:
    """Columns of the same dtype that are copied into one matrix.

    Attributes
    ----------
    name : str
        Name of the matrix in a batch.
    dtype : numpy.dtype
        Dtype of the values.
    offsets : tuple of int
        Byte offset of each column in a record.
    """

    name: str
    dtype: np.dtype[Any]
    offsets: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """Size of a row in bytes."""
        return self.dtype.itemsize * len(self.offsets)

    @cached_property
    def _runs(self) -> list[tuple[int, int, int]]:
        """Runs of adjacent columns: offset in a record, offset in a row, length in bytes."""
        size, offsets = self.dtype.itemsize, self.offsets
        breaks = [n for n, (a, b) in enumerate(pairwise(offsets), 1) if b != a + size]
        bounds = pairwise([0, *breaks, len(offsets)])
        return [(offsets[first], first * size, (last - first) * size) for first, last in bounds]

    @property
    def fields(self) -> Iterator[tuple[str, Any, int]]:
        """Name, format and offset of the record fields that the matrix copies."""
        for number, (offset, _, nbytes) in enumerate(self._runs):
            yield f"{self.name} {number}", f"V{nbytes}", offset

    @cached_property
    def _row(self) -> np.dtype[np.void]:
        """Structured dtype of a matrix row, with the same fields as `fields`."""
        names, formats, _ = zip(*self.fields, strict=True)
        offsets = [offset for _, offset, _ in self._runs]
        return layout(names, formats, offsets, self.nbytes)

    def is_whole(self, record: np.dtype[Any]) -> bool:
        """Whether a row has exactly the bytes of a record."""
        return self._runs == [(0, 0, record.itemsize)]

    def empty(self, rows: int) -> npt.NDArray[Any]:
        """Allocate `rows` opaque rows."""
        return np.empty(rows, f"V{self.nbytes}")

    def fill(
        self, memory: npt.NDArray[Any], positions: slice, records: npt.NDArray[np.void]
    ) -> None:
        """Copy the values of `records`, viewed as `record_view`, to `positions` of `memory`."""
        rows, size = memory[positions], self.dtype.itemsize
        is_scattered = len(self._runs) * _VALUES_PER_RUN > len(self.offsets) > 1
        if is_scattered and not any(n % size for n in (*self.offsets, records.itemsize)):
            values = records.view(self.dtype).reshape(len(records), -1)
            indices = [offset // size for offset in self.offsets]
            values.take(indices, axis=1, out=self._values(rows), mode="clip")
            return
        rows = rows.view(self._row)
        for name in self._row.names or ():
            rows[name] = records[name]

    def _values(self, memory: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return memory.view(self.dtype).reshape(len(memory), -1)

    def split(self, memory: npt.NDArray[Any]) -> Iterator[tuple[str, npt.NDArray[Any]]]:
        """Yield the matrix's name, and its values as a view of `memory`."""
        yield self.name, self._values(memory)


@dataclass(frozen=True)
class Strip:
    """One column, or several adjacent columns of fixed-size values, in every record.

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
    def _itemsize(self) -> int:
        return self.columns[0][1].itemsize

    @property
    def _dtype(self) -> np.dtype[Any]:
        """Unsigned integer dtype of the same size as the values, used to copy them."""
        return np.dtype(f"u{self._itemsize}")

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


def strips_of(record: np.dtype[np.void], wanted: Mapping[str, np.dtype[Any]]) -> tuple[Strip, ...]:
    """Return the wanted columns of a record in as few strips as possible.

    Parameters
    ----------
    record : numpy.dtype
        Structured dtype of a sample.
    wanted : mapping from str to numpy.dtype
        The columns to read, and the dtype of their values or elements.
    """
    strips: list[tuple[int, list[tuple[str, np.dtype[Any]]], tuple[int, ...]]] = []
    # Offset and size of a column that would extend the latest strip.
    joinable: tuple[int, int] | None = None
    for name, (field, offset, *_) in (record.fields or {}).items():  # in the order of their bytes
        if name not in wanted:
            continue
        size = wanted[name].itemsize
        if field.shape or joinable != (offset, size):
            strips.append((offset, [], field.shape))
        strips[-1][1].append((name, wanted[name]))
        joinable = None if field.shape else (offset + size, size)
    return tuple(Strip(offset, tuple(columns), shape) for offset, columns, shape in strips)


def record_view(record: np.dtype[np.void], strips: Sequence[Strip | Matrix]) -> np.dtype[np.void]:
    """Return the dtype that views records as the fields of strips and matrices."""
    fields = [field for strip in strips for field in strip.fields]
    names, formats, offsets = zip(*fields, strict=True) if fields else ((), (), ())
    return layout(names, formats, offsets, record.itemsize)


def matrices_of(
    record: np.dtype[np.void],
    wanted: Mapping[str, np.dtype[Any] | None],
    outputs: Sequence[Output],
) -> tuple[list[Matrix], set[str]]:
    """Return the matrices that can be copied from records, and the columns of all other outputs.

    Parameters
    ----------
    record : numpy.dtype
        Structured dtype of a sample.
    wanted : mapping from str to numpy.dtype or None
        Dtype of the values of each column; None if they are not just a view of the stored bytes.
    outputs : sequence of Output
        The entries of a batch.
    """
    fields: Mapping[str, Any] = record.fields or {}
    matrices, left = [], set[str]()
    for output in dict.fromkeys(outputs):
        columns = (output,) if isinstance(output, str) else output.columns
        dtypes = {None if fields[column][0].shape else wanted.get(column) for column in columns}
        dtype = dtypes.pop() if len(dtypes) == 1 else None
        if isinstance(output, str) or dtype is None or output.casts(dtype):
            left.update(columns)
        else:
            offsets = tuple(fields[column][1] for column in columns)
            matrices.append(Matrix(output_name(output), dtype, offsets))
    return matrices, left


def layout(
    names: Sequence[str], formats: Sequence[Any], offsets: Sequence[int], itemsize: int
) -> np.dtype[np.void]:
    """Return the dtype of a record that may have gaps between its fields."""
    return np.dtype(
        {
            "names": list(names),
            "formats": list(formats),
            "offsets": list(offsets),
            "itemsize": itemsize,
        }
    )
