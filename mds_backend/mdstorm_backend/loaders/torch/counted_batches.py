"""Batches that PyTorch makes of what a dataset yields, counted for the state.

So they are where a dataset is no `StreamingDataset`, or overrides ``__iter__``, and without a batch
size. As MosaicML Streaming's loader does, this takes each row for one sample of the dataset.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sized
from typing import Any

import torch
from torch.utils.data import DataLoader

from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.loaders.runner import Delivered
from mdstorm_backend.loaders.torch.dataset_samples import DatasetSamples
from mdstorm_backend.loaders.torch.device_batches import on_device
from mdstorm_backend.loaders.torch.loader_passes import LoaderPasses


def counted_batches(
    loader: DataLoader[Any], kept: LoaderPasses, count_rows: Callable[[Any], int]
) -> Generator[Any, None, None]:
    """Go through what PyTorch's own loader makes of the dataset, and count its rows."""
    kept.counted = 0
    batches: Delivered = ((batch, None, count_rows(batch)) for batch in DataLoader.__iter__(loader))
    if kept.device is not None:
        batches = on_device(batches, kept.device)
    order = getattr(getattr(loader.dataset, "_mdstorm", None), "order", None)
    name = getattr(order, "name", "exact")  # a dataset that has none counts as exact
    recorder, is_waiting = kept.recorders.begin(name, loader.num_workers), False
    try:
        for batch, _, size in recorder.consumed(batches):
            kept.counted = (kept.counted or 0) + size
            recorder.deliver(size)
            yield batch
            recorder.ask()
        is_waiting = True
    finally:
        recorder.end(is_waiting=is_waiting)


def rows_of(batch: Any, batch_size: int | None) -> int:
    """Return the number of samples in a batch.

    Parameters
    ----------
    batch : object
        Columns in a mapping, a tensor, a list of samples, or a list or tuple of columns. Anything
        else counts as a full one.
    batch_size : int or None
        Rows of a full batch; None if batches are single samples.

    Raises
    ------
    InvalidArgumentError
        If it is a mapping without columns.
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


def has_own_states(dataset: object) -> bool:
    """Whether a subclass of `StreamingDataset` overrides its states, which then are those."""
    names = ("state_dict", "load_state_dict")
    return isinstance(dataset, DatasetSamples) and any(
        getattr(type(dataset), name) is not getattr(DatasetSamples, name) for name in names
    )
