"""Elements that TensorFlow reads (blocks of rows, or n-grams), and the position after each."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import ref

import numpy as np

from mdstorm._readers import ReaderPasses, is_reader, starts_over
from mdstorm._tensorflow.columns import (
    column_for_tf,
    refuse_nulls_in_rows,
    rows_for_tf,
    value_for_tf,
)
from mdstorm.errors import InvalidArgumentError, StateMismatchError, UnequalLengthsError
from mdstorm_backend.format import Batch, num_rows, slice_batch
from mdstorm_backend.loaders import NOTHING, Loader, NumberedBatches, ReadAhead, Segment, converted
from mdstorm_backend.loaders.tf import ColumnSpec
from mdstorm_backend.read import Block

#: Maximum stored size, in bytes, of the rows in a block that is passed to TensorFlow.
_BYTES_AT_A_TIME = 4 << 20
_MOST_ROWS = 1 << 16


@dataclass
class Elements:
    """Yields blocks of rows as tuples of arrays.

    If the reader is an unused mdstorm reader, each call of `read` is a complete, independent pass.
    For other readers, each call continues with the reader's own items, and resets a reader that is
    at its end.

    Attributes
    ----------
    reader : Reader
        The reader.
    specs : sequence of ColumnSpec
        The specs of the returned columns.
    by_shard : bool
        Whether each element contains this rank's rows from one shard, rather than arbitrary rows.
    """

    reader: Any
    specs: Sequence[ColumnSpec]
    by_shard: bool
    #: Number of items that Python code has taken since the latest iteration began; None if
    #: TensorFlow consumes the items itself.
    taken: int | None = None
    _passes: ReaderPasses | None = None
    _begun: bool = False
    #: Returns the latest iterator that Python code has requested; None once it is gone.
    _iterator: Callable[[], Any] = lambda: None
    #: The items that the latest iteration has read.
    _queue: ReadAhead = field(default_factory=ReadAhead)

    def read(self) -> Iterator[Any]:
        """Begin an iteration and yield its blocks."""
        passes = self._own_passes()
        self._begun = True
        return self._items() if passes is None else self._of_passes(passes)

    def _own_passes(self) -> ReaderPasses | None:
        """Return the reader's passes over blocks; None if only its items can be read."""
        reader = self.reader
        if self._passes is None and starts_over(reader, has_begun=self._begun):
            source = reader._mdstorm_options.dataset
            per_row = max(source.nbytes // max(len(source), 1), 1)
            rows = max(1, min(_BYTES_AT_A_TIME // per_row, _MOST_ROWS))
            self._passes = ReaderPasses(
                reader,
                rows,
                by_shard=self.by_shard,
                splits=not self._are_batches,
                owner="a dataset of make_petastorm_dataset",
            )
        return self._passes

    def _of_passes(self, passes: ReaderPasses) -> Iterator[Any]:
        """Yield the blocks of a pass, and record their offsets."""
        skipped = passes.loader.epochs.next_position.skip
        queue = self._queue = ReadAhead(-skipped, "items")

        def make_batches(segment: Segment) -> Sequence[Any]:
            return converted(
                segment.blocks(), lambda blocks: self._recorded(segment, queue, blocks)
            )

        for batch in passes.run(make_batches):
            yield from self._parts(slice_batch(batch, skipped, num_rows(batch)))
            skipped = 0
        queue.is_over = True

    @property
    def _are_batches(self) -> bool:
        """Whether the dataset's items are blocks rather than rows."""
        return self.by_shard and bool(self.reader.batched_output)

    def _recorded(
        self, segment: Segment, queue: ReadAhead, blocks: Iterator[Block]
    ) -> NumberedBatches:
        for block in blocks:
            rows = num_rows(block.batch)
            items = min(rows, 1) if self._are_batches else rows
            queue.record(segment, block.offsets[-1:], [items])
            yield block.batch if rows else NOTHING, block.offsets[-1], sum(block.sizes)

    def begin(self, iterator: Any) -> None:
        """Record that Python code has requested an iterator."""
        self.taken, self._iterator = None, ref(iterator)

    def take(self, following: Callable[[], Any]) -> Any:
        """Return the item that `following` returns, and count it as taken by Python code."""
        taken = self.taken = self.taken or 0
        item = following()
        if taken == 1 and self._passes is not None:
            self._passes.loader.use_latest()
        self.taken = taken + 1  # count last, because an interrupted caller does not get the item
        return item

    def state_dict(self, items: int | None) -> dict[str, Any]:
        """Return the state that the latest iteration had after `items` items; None: those taken."""
        loader, queue = self._resumable(), self._queue
        if items is None and self.taken and self._iterator() is None:
            loader.leave_latest()  # TensorFlow ends its generator up to a second later
            if loader.is_left_peek:
                return loader.next_state()
        items = self.taken if items is None else items
        return queue.state_dict(items) if queue else loader.state_dict()

    def load_state_dict(self, state: Mapping[str, Any], skip_batches: int) -> Loader:
        """Resume the next iteration from a state; return the loader that will read it."""
        if skip_batches and not self._are_batches:
            raise InvalidArgumentError(
                f"skip_batches={skip_batches} needs a batch reader, and this is a dataset of rows: "
                "leave rows out with dataset.skip(n)"
            )
        loader = self._resumable()
        loader.load_state_dict(state, skip_batches)
        self.taken, self._queue = None, ReadAhead()
        return loader

    def _resumable(self) -> Loader:
        passes = self._own_passes()
        if passes is None:
            raise StateMismatchError(
                "this dataset cannot save or load its position, because its reader was already "
                "used or is not an mdstorm reader: call the reader's own state_dict() or "
                "load_state_dict(), or create the dataset from an unused reader"
            )
        return passes.loader

    def _parts(self, batch: Batch) -> Iterator[Any]:
        """Yield a batch's rows together, or one by one if their arrays have different shapes."""
        try:
            yield self._columns(batch)
        except UnequalLengthsError:
            if self.reader.batched_output:
                raise
            for row in range(num_rows(batch)):
                yield self._columns(slice_batch(batch, row, row + 1))

    def _columns(self, batch: Batch) -> Any:
        assert self._passes is not None
        if not self.reader.batched_output:
            refuse_nulls_in_rows((spec.name, batch[spec.name]) for spec in self.specs)
        convert = column_for_tf if self.reader.batched_output else rows_for_tf
        column = self._passes.loader.options.reading.column
        return tuple(convert(batch[s.name], s, column(s.name)) for s in self.specs)

    def _items(self) -> Iterator[Any]:
        for item in _from_its_place(self.reader):
            values = item._asdict()
            if self.reader.batched_output:
                yield tuple(column_for_tf(np.asarray(values[s.name]), s) for s in self.specs)
            else:
                refuse_nulls_in_rows((spec.name, values[spec.name]) for spec in self.specs)
                cells = (value_for_tf(values[s.name], s) for s in self.specs)
                yield tuple(np.asarray(cell)[np.newaxis] for cell in cells)


@dataclass
class NGrams:
    """Yields a reader's n-grams as flat tuples.

    The first call of `read` continues where the reader is. Later calls start from the beginning if
    it is an mdstorm reader, and otherwise also continue.

    Attributes
    ----------
    reader : Reader
        The reader.
    specs : dict of int to sequence of ColumnSpec
        The specs of the returned columns, by offset.
    """

    reader: Any
    specs: Mapping[int, Sequence[ColumnSpec]]
    _begun: bool = False

    def read(self) -> Iterator[Any]:
        """Begin an iteration and yield its n-grams."""
        if self._begun and is_reader(self.reader):
            self.reader._mdstorm_restart()
        self._begun = True
        for item in _from_its_place(self.reader):
            yield tuple(
                value
                for offset in sorted(self.specs)
                for value in _values(item[offset], self.specs[offset])
            )


def _values(row: Any, specs: Sequence[ColumnSpec]) -> Iterator[Any]:
    refuse_nulls_in_rows((spec.name, getattr(row, spec.name)) for spec in specs)
    return (value_for_tf(getattr(row, spec.name), spec) for spec in specs)


def _from_its_place(reader: Any) -> Iterator[Any]:
    """Yield a reader's remaining items, or all items after a reset if none remain."""
    if getattr(reader, "last_row_consumed", False):
        reader.reset()
    yield from reader
