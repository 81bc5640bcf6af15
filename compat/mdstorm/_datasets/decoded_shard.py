"""A shard whose columns are decoded to the fields of a Unischema."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mdstorm._datasets.field_decoders import DecodedField
from mdstorm.errors import DecodeFieldError, MDStormError
from mdstorm_backend.format import Batch, Column, Values, as_arrow, numpy_dtype, take_values
from mdstorm_backend.read import Rows, Shard, scalars_to_numpy


class DecodedShard(Shard):
    """A shard of a `DecodedSource`.

    What its own shard keeps in memory is decoded once, too; from a mapped one the rows that are
    asked for.
    """

    def __init__(self, stored: Shard, fields: dict[str, DecodedField], url: str) -> None:
        self.num_samples = stored.num_samples
        self._stored = stored
        self._fields = fields
        self._url = getattr(stored, "url", url)  # of its file
        self._keeps = stored.memory > 0
        self._lock = threading.Lock()
        self._kept: dict[tuple[str, bool], Values] = {}

    @property
    def memory(self) -> int:
        """Bytes that it keeps in memory, about: what is decoded is as large as what is stored."""
        return 2 * self._stored.memory

    def will_need(self) -> None:
        """Have what is mapped read ahead."""
        self._stored.will_need()

    def make_ready(self, columns: Sequence[str], *, exact_nulls: bool = False) -> None:
        """Decode ahead of use what is kept."""
        self.decoded(columns, exact_nulls=exact_nulls)

    def decoded(self, columns: Sequence[str], *, exact_nulls: bool = False) -> Batch | None:
        """Return all samples of some columns, not to be changed; None where they are not kept."""
        if not self._keeps:
            return None
        plain = [name for name in columns if self._fields[name].decode is None]
        batch = self._stored.decoded(plain, exact_nulls=exact_nulls)
        if batch is None:
            return None
        everything = np.arange(self.num_samples)
        with self._lock:
            for name in columns:
                if name not in batch and (name, exact_nulls) not in self._kept:
                    self._kept[name, exact_nulls] = self._decode(everything, name, exact_nulls)
            kept = {name: self._kept[name, exact_nulls] for name in columns if name not in batch}
        return {name: batch[name] if name in batch else kept[name] for name in columns}

    def read(self, rows: Rows, columns: Sequence[str], *, exact_nulls: bool = False) -> Batch:
        """Copy the samples `rows` (ascending, without repetition) of some columns."""
        plain = [name for name in columns if self._fields[name].decode is None]
        others = [name for name in columns if self._fields[name].decode is not None]
        found = self._stored.read(rows, plain, exact_nulls=exact_nulls) if plain else {}
        kept = self.decoded(others, exact_nulls=exact_nulls) if others else {}
        for name in others:
            found[name] = (
                self._decode(rows, name, exact_nulls)
                if kept is None
                else _copied(take_values(kept[name], rows))
            )
        return {name: found[name] for name in columns}

    def sample(self, row: int, columns: Sequence[str] | None = None) -> dict[str, Any]:
        """Return one sample, all of its columns for None; arrays as NumPy, None for null."""
        names = list(self._fields) if columns is None else list(columns)
        plain = [name for name in names if self._fields[name].decode is None]
        found = self._stored.sample(row, plain) if plain else {}
        for name in names:
            if name not in found:
                (found[name],) = value_cells(self._decode(np.array([row]), name, True))
        return {name: found[name] for name in names}

    def _decode(self, rows: Rows, name: str, exact_nulls: bool) -> Values:
        field = self._fields[name]
        assert field.decode is not None
        stored = self._stored.read(rows, [name], exact_nulls=True)[name]
        try:
            return _delivered(field.column, field.decode(stored), exact_nulls)
        except (ArithmeticError, TypeError, ValueError, LookupError, pa.ArrowException) as error:
            if isinstance(error, MDStormError) and not isinstance(error, ValueError):
                raise
            raise DecodeFieldError(
                f'Decoding field "{name}" failed: {self._url} holds {error}. If the file does not '
                "have the schema in the dataset's metadata, remove it; otherwise write the "
                "dataset again, or leave the field out with schema_fields=[…]"
            ) from error


def _delivered(column: Column, values: Values, exact_nulls: bool) -> Values:
    """Return decoded values in the form that the reading core promises for the column."""
    if isinstance(values, np.ndarray):
        if values.ndim > 1 or values.dtype == object or column.is_numpy(exact_nulls=exact_nulls):
            return values
        return as_arrow(values)
    if column.is_array or values.null_count > column.null_count:
        return values
    is_numpy = column.is_numpy(exact_nulls=exact_nulls)
    return scalars_to_numpy(values, has_nulls=False) if is_numpy else values


def _copied(values: Values) -> Values:
    """Copy the arrays in an array of objects, too: a reader may change what it gets."""
    if isinstance(values, np.ndarray) and values.dtype == object:
        for row, value in enumerate(values):
            if isinstance(value, np.ndarray):
                values[row] = value.copy()
    return values


def value_cells(values: Values) -> list[Any]:
    """Return values one by one, arrays as NumPy arrays."""
    if isinstance(values, np.ndarray):
        return list(values)
    cells: list[Any] = values.to_pylist()
    if pa.types.is_list(values.type):
        dtype = numpy_dtype(values.type.value_type)
        cells = [None if cell is None else np.array(cell, dtype) for cell in cells]
    return cells
