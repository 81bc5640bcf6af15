"""Promote and collate rows for PyTorch batches."""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from torch.utils.data import default_collate

from mdstorm._torch.columns import array_for_torch, column_to_torch, no_tensor
from mdstorm.errors import NullValueError

#: Column to value, or offset of an n-gram to such a row.
Row: TypeAlias = dict[Any, Any]


def row_for_torch(item: Any) -> Row:
    """Return a row of a reader, a namedtuple or an n-gram of them, as a dict.

    Raises
    ------
    NullValueError
        If a value is None.
    """
    if isinstance(item, Mapping):
        return {offset: row_for_torch(row) for offset, row in item.items()}
    row: Row = item._asdict()
    refuse_nulls_in_rows({name: 1 for name, value in row.items() if value is None})
    return {name: array_for_torch(value) for name, value in row.items()}


def refuse_nulls_in_rows(counts: Mapping[str, int]) -> None:
    """Refuse nulls in rows, where no column decides what stands for them.

    Parameters
    ----------
    counts : mapping of str to int
        Fields with nulls, and their numbers.

    Raises
    ------
    NullValueError
        If there is one.
    """
    if counts:
        raise NullValueError(
            f"Pytorch does not support nullable fields. Found None in {', '.join(counts)}. Leave "
            "such rows out with a predicate, or give them a value in a transform_spec or with "
            "fill_nulls",
            columns=counts,
        )


def sanitize_pytorch_types(row_as_dict: dict[str, Any]) -> None:
    """Promote the arrays and booleans of a row or a batch to types of PyTorch, in place.

    Booleans become uint8, arrays of uint16 int32 and of uint32 int64.

    Raises
    ------
    UnsupportedTypeError
        If there is an array of strings, bytes or objects; also TypeError.
    NullValueError
        If a value is None; also TypeError.
    """
    refuse_nulls_in_rows({name: 1 for name, value in row_as_dict.items() if value is None})
    for name, value in row_as_dict.items():
        if isinstance(value, np.ndarray) and value.dtype.kind in "SUO":
            raise no_tensor(name, value.dtype)
        if isinstance(value, (np.ndarray, np.bool_)):
            row_as_dict[name] = array_for_torch(value)


def collate_rows(rows: Sequence[Row]) -> dict[Any, Any]:
    """Return rows as a batch: tensors, and lists of what PyTorch has no type for."""
    return {name: _collated([row[name] for row in rows], name) for name in rows[0]}


def _collated(values: list[Any], name: str) -> Any:
    first = values[0]
    if isinstance(first, Mapping):
        return collate_rows(values)
    if isinstance(first, np.ndarray):
        shapes = {value.shape for value in values}
        return (
            column_to_torch(np.stack(values), name)
            if len(shapes) == 1
            else [column_to_torch(value, name) for value in values]
        )
    if isinstance(first, np.generic) and not isinstance(first, (str, bytes)):
        return column_to_torch(np.array(values), name)
    if isinstance(first, datetime.date):
        return values
    return decimal_friendly_collate(values)


def decimal_friendly_collate(batch: Sequence[Any]) -> Any:
    """Collate as PyTorch's ``default_collate`` does, and decimals and text to lists.

    Parameters
    ----------
    batch : sequence
        The samples. The first one decides: of mappings each key is collated by itself, of
        sequences each position; decimals, strings and bytes stay the list that they are.

    Returns
    -------
    object
        A tensor, a list, or a dict or list of them.

    Raises
    ------
    IndexError
        If there are no samples.
    TypeError
        If PyTorch has no tensor for the values.
    """
    first = batch[0]
    if isinstance(first, (decimal.Decimal, str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return {key: decimal_friendly_collate([sample[key] for sample in batch]) for key in first}
    if isinstance(first, Sequence):
        return [decimal_friendly_collate(samples) for samples in zip(*batch, strict=False)]
    return default_collate(list(batch))
