"""`ReaderPasses`: the passes that loaders make over a reader's data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeGuard

from mdstorm._readers.arguments import ReaderArguments, rows_of_batch
from mdstorm._readers.reader import Reader
from mdstorm_backend import loaders
from mdstorm_backend.base import PassThreads


def is_reader(reader: object) -> TypeGuard[Reader]:
    """Whether an object is an open mdstorm `Reader`, and not a mock whose spec is that class."""
    arguments = getattr(reader, "_mdstorm_arguments", None)
    return isinstance(reader, Reader) and isinstance(arguments, ReaderArguments)


def can_pass_over(reader: Any) -> bool:
    """Whether a reader is an mdstorm `Reader` that does not yield n-grams."""
    return is_reader(reader) and not reader.ngram


def starts_over(reader: Any, *, has_begun: bool) -> bool:
    """Whether a loader over a reader reads complete passes rather than the reader's items.

    A loader that has not begun does so only if the reader is at the start of a pass, because the
    remaining items of a reader cannot be read in blocks.
    """
    return can_pass_over(reader) and (
        has_begun or reader._mdstorm_untouched or reader.last_row_consumed
    )


class ReaderPasses:
    """Complete passes over a reader's data, each independent of the others.

    Parameters
    ----------
    reader : Reader
        Defines which data is read and how; its own position does not change.
    batch_size : int or None
        Rows per batch; all rows of all epochs if None.
    window : int
        Capacity of the shuffling queue, in rows; 0 keeps the reader's order.
    by_shard : bool
        Whether to ignore `batch_size` and make one batch from this rank's rows in each shard.
    splits : bool
        See `loaders.Loader`.
    threads : PassThreads, optional
        Waits for the threads of the passes.
    owner : str
        The name of the object that makes the passes, for messages.
    """

    def __init__(
        self,
        reader: Reader,
        batch_size: int | None,
        window: int = 0,
        *,
        by_shard: bool = False,
        splits: bool = False,
        threads: PassThreads | None = None,
        owner: str = "a loader",
    ) -> None:
        self._reader, self._owner = reader, owner
        options = reader._mdstorm_options
        if window > 0:
            options = replace(options, order=options.order.with_queue(window))
        if not by_shard:  # the reader's own batches are shards
            rows = rows_of_batch(
                batch_size,
                num_epochs=options.num_epochs,
                dataset_size=len(options.dataset),
                spans_epochs=options.order.spans_epochs,
                may_add_rows=options.calls_functions,
            )
            options = replace(options, batch_size=rows, by_shard=False, largest=None)
        self.loader = loaders.Loader(
            options,
            threads or PassThreads(),
            check=reader._mdstorm_check_running,
            splits=splits,
            recorder=reader._mdstorm_cursor.loader.recorder,
        )
        with reader._mdstorm_lock:
            reader._mdstorm_loaders.add(self.loader)

    def __call__(self, convert: loaders.Convert) -> Iterator[Any]:
        """Iterate over a new pass, or over the rest of a pass whose state was loaded.

        Raises
        ------
        RuntimeError
            If the reader was stopped.
        """
        return self.run(lambda segment: loaders.converted(segment.blocks(), convert))

    def run(self, make_batches: loaders.MakeBatches) -> Iterator[Any]:
        """Iterate over a pass; `make_batches` creates the batches for each segment."""
        reader = self._reader
        reader._mdstorm_check_running()
        reader._mdstorm_owner = self._owner
        yield from self.loader.run(make_batches)
        reader._mdstorm_untouched, reader.last_row_consumed = False, True
