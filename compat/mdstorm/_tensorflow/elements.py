"""Take the elements of a TensorFlow dataset from a reader, in blocks where possible."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mdstorm._readers.passes import ReaderPasses, can_pass_over, can_restart, is_at_a_start
from mdstorm._readers.reader import DatasetReader
from mdstorm._tensorflow.values import (
    column_for_tf,
    refuse_nulls_in_rows,
    rows_for_tf,
    value_for_tf,
)
from mdstorm.errors import UnequalLengthsError
from mdstorm_backend.format import Batch, num_rows, slice_batch
from mdstorm_backend.loaders import NOTHING, Delivered, mark_and_rows
from mdstorm_backend.loaders.tf import ColumnSpec
from mdstorm_backend.read import Block

#: Bytes of stored rows that are handed over together.
_BYTES_AT_A_TIME = 4 << 20
_MOST_ROWS = 1 << 16


@dataclass
class Elements:
    """Yields some rows at a time as a namedtuple of arrays, for ``tf.data.Dataset.from_generator``.

    Each call is a complete pass, independent of the others, over a reader of ours from which
    nothing was taken before. Otherwise calls go on with the reader's own items, and reset it at
    its end.

    Attributes
    ----------
    reader : DatasetReader
        What is read.
    specs : sequence of ColumnSpec
        How its columns arrive.
    by_shard : bool
        Whether an element is one shard's share of the rows, rather than a block of any rows.
    """

    reader: Any
    specs: Sequence[ColumnSpec]
    by_shard: bool
    _passes: ReaderPasses | None = None
    _begun: bool = False

    def __call__(self) -> Iterator[Any]:
        reader = self.reader
        begins_anew = can_pass_over(reader) and (self._begun or is_at_a_start(reader))
        if self._passes is None and begins_anew:
            rows = _rows_at_a_time(reader)
            self._passes = ReaderPasses(reader, rows, by_shard=self.by_shard)
        self._begun = True
        return self._items() if self._passes is None else self._passes(self._of_blocks)

    def _of_blocks(self, blocks: Iterator[Block]) -> Delivered:
        for block in blocks:
            mark, rows = mark_and_rows(block)
            parts = self._parts(block.batch) if num_rows(block.batch) else iter([NOTHING])
            for part in parts:
                yield part, mark, rows

    def _parts(self, batch: Batch) -> Iterator[Any]:
        """Yield the rows of a batch together; one by one if their arrays have several shapes."""
        try:
            yield self._columns(batch)
        except UnequalLengthsError:
            if self.reader.batched_output:
                raise
            for row in range(num_rows(batch)):
                yield self._columns(slice_batch(batch, row, row + 1))

    def _columns(self, batch: Batch) -> Any:
        assert self._passes is not None
        convert = column_for_tf
        if not self.reader.batched_output:
            refuse_nulls_in_rows((spec.name, batch[spec.name]) for spec in self.specs)
            convert = rows_for_tf
        column = self._passes.options.column
        return self._named(convert(batch[s.name], s, column(s.name)) for s in self.specs)

    def _items(self) -> Iterator[Any]:
        for item in _from_its_place(self.reader):
            values = item._asdict()
            if self.reader.batched_output:
                yield self._named(column_for_tf(np.asarray(values[s.name]), s) for s in self.specs)
            else:
                refuse_nulls_in_rows((spec.name, values[spec.name]) for spec in self.specs)
                cells = (value_for_tf(values[s.name], s) for s in self.specs)
                yield self._named(np.asarray(cell)[np.newaxis] for cell in cells)

    def _named(self, columns: Iterator[Any]) -> Any:
        return self.reader.schema.make_namedtuple_tf(*columns)


@dataclass
class NGrams:
    """Yields the n-grams of a reader, for ``tf.data.Dataset.from_generator``.

    Each call begins anew where the reader can do so; others go on where they stand.

    Attributes
    ----------
    reader : DatasetReader
        What is read.
    specs : dict of int to sequence of ColumnSpec
        How the columns of each offset arrive.
    """

    reader: Any
    specs: Mapping[int, Sequence[ColumnSpec]]
    _begun: bool = False

    def __call__(self) -> Iterator[Any]:
        if self._begun and can_restart(self.reader):
            self.reader._mdstorm_restart()
        self._begun = True
        for item in _from_its_place(self.reader):
            yield {offset: self._row(item[offset], offset) for offset in self.specs}

    def _row(self, row: Any, offset: int) -> Any:
        specs = self.specs[offset]
        refuse_nulls_in_rows((spec.name, getattr(row, spec.name)) for spec in specs)
        return type(row)(*(value_for_tf(getattr(row, spec.name), spec) for spec in specs))


def _from_its_place(reader: Any) -> Iterator[Any]:
    """Yield what is left of a reader; if that is nothing, everything anew."""
    if getattr(reader, "last_row_consumed", False):
        reader.reset()
    yield from reader


def _rows_at_a_time(reader: DatasetReader) -> int:
    source = reader._mdstorm_options().dataset
    per_row = source.nbytes // max(len(source), 1)
    return max(1, min(_BYTES_AT_A_TIME // max(per_row, 1), _MOST_ROWS))
