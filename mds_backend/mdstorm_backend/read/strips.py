"""Strips: columns of a record that are copied together.

Copying a column out of some records is one call of NumPy, and so is copying many of them that lie
side by side and have values of one size: the records are a matrix then, of which the columns are
the transpose. One call has less to set up, and keeps the interpreter's lock released for longer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Strip:
    """One column, or several whose values are neighbours of one size in every record.

    Attributes
    ----------
    offset : int
        Byte of a record at which the first value begins.
    columns : tuple of (str, numpy.dtype)
        Name and dtype of each, in the order of the record.
    shape : tuple of int
        Shape of a value; only scalars have neighbours.
    """

    offset: int
    columns: tuple[tuple[str, np.dtype[Any]], ...]
    shape: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """Name of the first column, which stands for the strip in a record."""
        return self.columns[0][0]

    @property
    def _dtype(self) -> np.dtype[Any]:
        """Dtype in which values are copied, whatever they mean: one of their size."""
        return np.dtype(f"u{self.columns[0][1].itemsize}")

    @property
    def field(self) -> tuple[np.dtype[Any], tuple[int, ...]]:
        """Dtype and shape of the strip in a record."""
        return self._dtype, (len(self.columns), *self.shape)

    def empty(self, rows: int) -> npt.NDArray[Any]:
        """Return memory for `rows` values of each column."""
        return np.empty((len(self.columns), rows, *self.shape), self._dtype)

    def fill(
        self, memory: npt.NDArray[Any], positions: slice, records: npt.NDArray[np.void]
    ) -> None:
        """Copy the values of some records, seen through `record_view`, to their places."""
        memory[:, positions] = records[self.name].swapaxes(0, 1)

    def split(self, memory: npt.NDArray[Any]) -> Iterator[tuple[str, npt.NDArray[Any]]]:
        """Yield name and values of each column: views."""
        for (name, dtype), values in zip(self.columns, memory, strict=True):
            yield name, values.view(dtype)

    def joined(self, other: Strip) -> Strip | None:
        """Return this strip and `other` as one; None if they are not alike or not neighbours."""
        size = self._dtype.itemsize
        if self.shape or other.shape or other._dtype.itemsize != size:
            return None
        if other.offset != self.offset + size * len(self.columns):
            return None
        return Strip(self.offset, self.columns + other.columns)


def strips_of(record: np.dtype[np.void], wanted: Mapping[str, np.dtype[Any]]) -> tuple[Strip, ...]:
    """Return the columns of a record in as few strips as there can be.

    Parameters
    ----------
    record : numpy.dtype
        Structured dtype of a sample.
    wanted : mapping from str to numpy.dtype
        The columns to read, and of which dtype their values, or elements, are to be.
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


def record_view(record: np.dtype[np.void], strips: Sequence[Strip]) -> np.dtype[np.void]:
    """Return the dtype through which records show their strips, each by its `Strip.name`."""
    return np.dtype(
        {
            "names": [strip.name for strip in strips],
            "formats": [strip.field for strip in strips],
            "offsets": [strip.offset for strip in strips],
            "itemsize": record.itemsize,
        }
    )
