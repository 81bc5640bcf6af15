"""Passes of a `StreamingDataLoader` whose samples are counted, as a `CountedPass`."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sized
from contextlib import closing
from functools import partial
from typing import Any, TypeAlias

import torch
from torch.utils.data import DataLoader

from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.loaders import MOST_UNUSED, NumberedBatches
from mdstorm_backend.loaders.torch import moved_batches
from mdstorm_backend.loaders.torch.counted_pass import CountedPass
from mdstorm_backend.loaders.torch.loader_passes import LoaderPasses
from mdstorm_backend.loaders.torch.sent_batches import (
    collated_and_pickled,
    from_workers,
    queues_to_workers,
)

#: Returns the number of samples in a batch.
CountRows: TypeAlias = Callable[[Any], int]


def run_counted(
    loader: DataLoader[Any], kept: LoaderPasses, count_rows: CountRows
) -> Generator[Any, None, None]:
    """Run a pass as `LoaderPasses.run` does, and count the samples in each segment of it."""
    segment, loop = None, kept.of(loader)
    counted, epochs = CountedPass.over(loader.dataset), loop.epochs
    with closing(kept.run(loader)) as batches:
        for batch in batches:
            rows, samples = count_rows(batch), counted.samples
            if loop.segment is not segment:  # its beginning is the end of the previous one
                segment, samples = loop.segment, (*samples[:-1], 0)
            # Nothing is called here, since Ctrl-C in a call would lose the batch.
            counted.samples = (*samples[-MOST_UNUSED:], samples[-1] + rows)
            kept.counted_pass, counted.changes = counted, epochs.changes
            yield batch


def counted_batches(
    loader: DataLoader[Any], kept: LoaderPasses, count_rows: CountRows
) -> Generator[Any, None, None]:
    """Iterate with PyTorch's own loader, counting the rows that it yields."""
    counted = CountedPass.over(loader.dataset)
    epochs = counted.epochs
    made = _made_by_workers(loader) if loader.num_workers else DataLoader.__iter__(loader)
    batches: NumberedBatches = ((batch, 0, 0) for batch in made)
    if kept.device is not None:
        batches = moved_batches.on_device(batches, kept.device)
    recorder = kept.recorder
    recorder.begin()
    kept.counted_pass = counted
    for batch, _, _ in recorder.consumed(batches):
        rows = count_rows(batch)
        # This call precedes the counting, since Ctrl-C in a call after it would lose the batch.
        recorder.record_received([rows])
        samples, counted.changes = counted.samples, 0 if epochs is None else epochs.changes
        counted.samples = (*samples[-MOST_UNUSED:], samples[-1] + rows)
        kept.counted_pass = counted  # another iteration may have been advanced in the meantime
        yield batch
        recorder.record_request()
    counted.is_over, kept.counted_pass = True, counted
    recorder.record_received()  # the end


def _made_by_workers(loader: DataLoader[Any]) -> Iterator[Any]:
    """Iterate with PyTorch's own loader, whose worker processes pickle their batches."""
    queues_to_workers(loader, loader.num_workers)  # raises an error if there is no room for them
    collate = loader.collate_fn
    loader.collate_fn = partial(collated_and_pickled, collate)
    try:
        batches = DataLoader.__iter__(loader)
    finally:
        loader.collate_fn = collate
    return from_workers(batches)


def rows_of(batch: Any, batch_size: int | None) -> int:
    """Return the number of samples in a batch.

    Parameters
    ----------
    batch : object
        A mapping of columns, a tensor, a list of samples, or a list or tuple of columns. Anything
        else counts as a full batch.
    batch_size : int or None
        Number of rows in a full batch; None if batches are single samples.

    Raises
    ------
    InvalidArgumentError
        If the batch is a mapping without columns.
    """
    if batch_size is None:
        return 1
    if isinstance(batch, Mapping):
        if not batch:
            raise InvalidArgumentError("Batch is empty: it has no columns to count rows by")
        columns = list(batch.values())
    elif isinstance(batch, torch.Tensor):
        columns = [batch]
    elif isinstance(batch, (list, tuple)) and batch:
        if isinstance(batch[0], (Mapping, str, bytes)):
            return len(batch)
        columns = list(batch)
    else:
        columns = []
    return next((len(column) for column in columns if _has_rows(column)), batch_size)


def _has_rows(column: Any) -> bool:
    if isinstance(column, torch.Tensor):
        return column.ndim > 0
    return isinstance(column, Sized) and not isinstance(column, (str, bytes))
