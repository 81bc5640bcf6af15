"""Rows of MDS and Parquet as record batches of the same types, for comparison."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa

from mdstorm_backend.convert.row_batches import Recode, RowBatches, rows_of_a_batch
from mdstorm_backend.format.values.arrow_types import (
    decimals_to_floats,
    holds_decimals,
    holds_vectors,
    plain_type,
    plain_values,
    vectors_to_lists,
)
from mdstorm_backend.format.values.nested_lists import depth_of, element_type, list_type
from mdstorm_backend.parquet import ParquetDataset
from mdstorm_backend.read.batch_formats import to_record_batch
from mdstorm_backend.read.shard import SampleSource

#: Rows whose hashes are computed together, at most.
_MOST_ROWS = 1 << 14
_FLOATS: dict[str | None, pa.DataType] = {"float32": pa.float32(), "float64": pa.float64()}


class ComparedRows(ABC):
    """One side of a comparison: rows in parts that can be read independently.

    Parameters
    ----------
    url : str
        Where they are, for messages.
    types : dict of str to pyarrow.DataType
        The columns, see `plain_type`.
    part_sizes : sequence of int
        Rows of each part.
    """

    def __init__(self, url: str, types: dict[str, pa.DataType], part_sizes: Sequence[int]) -> None:
        self.url = url
        self.types = types
        self.starts = [0, *accumulate(part_sizes)]

    @property
    def num_rows(self) -> int:
        """Rows of all parts."""
        return self.starts[-1]

    @property
    def num_parts(self) -> int:
        """Number of parts."""
        return len(self.starts) - 1

    def with_floats(self, dtype: str | None, decimals: str | None = None) -> ComparedRows:
        """Return the rows as a conversion with `dtype` and `decimals` stores them."""
        wanted = {n: _with_floats(type_, dtype, decimals) for n, type_ in self.types.items()}
        return self if wanted == self.types else _Cast(self, wanted)

    @abstractmethod
    def batches(self, part: int, names: Sequence[str]) -> Iterator[list[pa.Array]]:
        """Read some columns of a part, batch by batch."""

    def rows(self, numbers: Iterable[int], names: Sequence[str]) -> dict[int, dict[str, Any]]:
        """Return rows by number, each as a dict."""
        found: dict[int, dict[str, Any]] = {}
        left = sorted(set(numbers))
        for part, (start, stop) in enumerate(zip(self.starts, self.starts[1:], strict=False)):
            inside = [number for number in left if start <= number < stop]
            if not inside:
                continue
            for arrays in self.batches(part, names):
                for number in inside:
                    if start <= number < start + len(arrays[0]):
                        values = (array[number - start].as_py() for array in arrays)
                        found[number] = dict(zip(names, values, strict=True))
                start += len(arrays[0])
        return found


class MDSRows(ComparedRows):
    """The rows of an MDS dataset; images and pickles are their stored bytes."""

    def __init__(self, source: SampleSource) -> None:
        self._source = source
        types = {column.name: plain_type(column.arrow_type) for column in source.schema}
        super().__init__(source.url, types, source.shard_sizes)
        self._step = rows_of_a_batch(source.nbytes / max(len(source), 1), _MOST_ROWS)

    def batches(self, part: int, names: Sequence[str]) -> Iterator[list[pa.Array]]:
        """Read some columns of a shard."""
        shard, schema = self._source.shard(part), self._source.schema.select(names)
        for start in range(0, shard.num_samples, self._step):
            rows = np.arange(start, min(start + self._step, shard.num_samples))
            batch = shard.read(rows, names, exact_nulls=True)
            yield [plain_values(column) for column in to_record_batch(batch, schema).columns]


class ParquetRows(ComparedRows):
    """The rows of Parquet files.

    Parameters
    ----------
    source : ParquetDataset
        The files.
    recode : callable, optional
        The function that a conversion calls with every batch before storing it.
    """

    def __init__(self, source: ParquetDataset, recode: Recode | None = None) -> None:
        self._source = source
        self._recode = recode
        fields = source.arrow_schema
        if recode is not None:
            fields = recode(pa.RecordBatch.from_pylist([], fields)).schema
        types = {field.name: _comparable_type(field.type) for field in fields}
        super().__init__(source.url, types, source.shard_sizes)

    def batches(self, part: int, names: Sequence[str]) -> Iterator[list[pa.Array]]:
        """Read some columns of a row group."""
        fields = self._source.arrow_schema
        if self._recode is None:
            fields = pa.schema([fields.field(name) for name in names])
        size = self._source.nbytes / max(len(self._source), 1)
        for batch in RowBatches(self._source, fields, size, _MOST_ROWS).batches([part]):
            recoded = self._recode(batch) if self._recode else batch
            yield [_comparable(recoded.column(name)) for name in names]


class _Cast(ComparedRows):
    """Rows cast to other types."""

    def __init__(self, rows: ComparedRows, types: dict[str, pa.DataType]) -> None:
        super().__init__(rows.url, types, np.diff(rows.starts).tolist())
        self._rows = rows

    def batches(self, part: int, names: Sequence[str]) -> Iterator[list[pa.Array]]:
        for arrays in self._rows.batches(part, names):
            yield [
                _cast(array, self.types[name]) for array, name in zip(arrays, names, strict=True)
            ]


def _cast(values: pa.Array, type_: pa.DataType) -> pa.Array:
    if values.type != type_ and holds_decimals(values.type):
        return decimals_to_floats(values, type_)
    return values.cast(type_)


def _comparable_type(type_: pa.DataType) -> pa.DataType:
    return pa.list_(pa.float64()) if holds_vectors(type_) else plain_type(type_)


def _comparable(values: pa.Array) -> pa.Array:
    return vectors_to_lists(values) if holds_vectors(values.type) else plain_values(values)


def _with_floats(type_: pa.DataType, dtype: str | None, decimals: str | None) -> pa.DataType:
    wanted = _FLOATS.get(decimals if holds_decimals(type_) else dtype)
    is_cast = holds_decimals(type_) or pa.types.is_floating(element_type(type_))
    return type_ if wanted is None or not is_cast else list_type(wanted, depth_of(type_))
