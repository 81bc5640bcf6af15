"""Repeat rows of a batch, whatever the batch is made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from mdstorm_backend.loaders.torch.device_batches import with_values


def repeated_rows(batch: Any, rows: int, size: int) -> Any:
    """Return the rows of a batch over and over, until there are `size` of them.

    Parameters
    ----------
    batch : object
        Columns of `rows` rows: tensors, and lists with an item for each row; in dicts, lists and
        tuples. Anything else stays as it is. A list of tensors of `rows` rows is taken for columns,
        not for one.
    rows : int
        Rows of the batch.
    size : int
        Rows of the result, more or less than in the batch.

    Returns
    -------
    object
        The same structure; copies of tensors.
    """
    numbers = torch.arange(size) % rows

    def repeated(values: Any) -> Any:
        if isinstance(values, torch.Tensor):
            return values[numbers.to(values.device)] if _has_rows(values, rows) else values
        if isinstance(values, Mapping):
            return with_values(values, {key: repeated(value) for key, value in values.items()})
        if not isinstance(values, (list, tuple)):
            return values
        if hasattr(values, "_fields"):
            return type(values)(*map(repeated, values))
        if len(values) == rows and values is not batch and not _are_columns(values, rows):
            return type(values)(values[number] for number in numbers.tolist())
        return type(values)(map(repeated, values))

    return repeated(batch)


def _has_rows(values: torch.Tensor, rows: int) -> bool:
    return values.ndim > 0 and len(values) == rows


def _are_columns(values: list[Any] | tuple[Any, ...], rows: int) -> bool:
    return all(isinstance(value, torch.Tensor) and _has_rows(value, rows) for value in values)
