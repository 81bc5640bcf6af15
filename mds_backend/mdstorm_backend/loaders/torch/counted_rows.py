"""`rows_of`: the number of samples in a batch that PyTorch made."""

from __future__ import annotations

from collections.abc import Mapping, Sized
from typing import Any

import torch

from mdstorm_backend.errors import InvalidArgumentError


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
