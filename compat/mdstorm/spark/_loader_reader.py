"""The reader that loaders of the user's own making consume."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mdstorm_backend.batch import Batch
from mdstorm_backend.frameworks.formats import column_to_numpy
from mdstorm_backend.frameworks.reader_options import ReaderOptions
from mdstorm_backend.frameworks.reading import Batching, Pass
from mdstorm_backend.frameworks.row_types import row_type

__all__ = ["LoaderReader"]


class LoaderReader:
    """Iterates over a dataset in namedtuples of NumPy arrays, about one shard at a time.

    It has the part of Petastorm's ``Reader`` that loaders use: iteration, `reset`, `stop`, `join`,
    `batched_output`, `is_batched_reader` and `last_row_consumed`.
    """

    batched_output = True
    is_batched_reader = True

    def __init__(self, options: ReaderOptions) -> None:
        self._options = options
        self._batches: Iterator[Any] | None = None
        self._pass: Pass | None = None
        self.last_row_consumed = False
        self.stopped = False

    def __iter__(self) -> LoaderReader:
        return self

    def __next__(self) -> Any:
        if self.stopped:
            raise RuntimeError(
                "Trying to read a sample after a reader created by make_batch_reader has stopped. "
                "This may happen if the dataset reader context manager was exited before: read "
                "inside of the with statement"
            )
        if self._batches is None:
            self._batches = self._read()
        try:
            return next(self._batches)
        except StopIteration:
            self.last_row_consumed = True
            raise

    next = __next__

    def reset(self) -> None:
        """Begin anew after the last row has been consumed."""
        if not self.last_row_consumed:
            raise NotImplementedError(
                "Currently do not support resetting a reader while in the middle of iteration. You "
                "can call reset only after all samples were consumed."
            )
        self._batches, self.last_row_consumed = None, False

    def stop(self) -> None:
        """End reading; can be repeated."""
        self.stopped = True
        if self._batches is not None:
            self._batches.close()  # type: ignore[attr-defined]

    def join(self) -> None:
        """Do nothing: `stop` has waited for the threads already."""

    def _read(self) -> Iterator[Any]:
        rows = max(self._options.dataset.shard_sizes, default=0)
        if rows == 0:
            return
        type_ = row_type("inferred_schema_view", self._options.delivered)
        before = self._pass or self._options.reading().first_pass(Batching(rows))
        current = self._pass = before.following()
        for batch in self._batches_of(current):
            yield type_(
                *(
                    column_to_numpy(batch[name], self._options.column(name))
                    for name in self._options.delivered
                )
            )
        current.finish()

    def _batches_of(self, current: Pass) -> Iterator[Batch]:
        for leg in current.legs():
            for block in leg.blocks():
                for batch, mark, size in zip(
                    block.batches(), block.marks, block.sizes, strict=True
                ):
                    current.advance(mark, size)
                    yield batch
