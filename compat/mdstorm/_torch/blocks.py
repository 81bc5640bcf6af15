"""Make batches from the blocks of a `DatasetReader`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import torch

from mdstorm._readers.reader import DatasetReader
from mdstorm._torch.columns import (
    arrays_of,
    column_to_torch,
    only_tensor,
    refuse_nulls_in_rows,
    row_for_torch,
    rows_of_columns,
)
from mdstorm_backend.format import Batch, Column, Values
from mdstorm_backend.loaders import NOTHING, Convert, Delivered, ReaderOptions
from mdstorm_backend.loaders.torch import (
    Collate,
    TorchValues,
    check_columns,
    tensor_batches,
    to_torch,
)
from mdstorm_backend.read import Block


def tensors(
    reader: DatasetReader,
    options: ReaderOptions,
    convert: Callable[[Values, Column | None, str], TorchValues] | None = None,
) -> Convert:
    """Return what makes tensors of blocks, and lists where PyTorch has none; or by `convert`."""
    convert = convert or _to_torch
    if reader.batched_output:
        check_columns(options)
        return partial(tensor_batches, options, convert=convert)
    return lambda blocks: tensor_batches(options, _without_nulls(blocks), convert=convert)


def transformed(
    reader: DatasetReader, options: ReaderOptions, function: Callable[[Any], Any]
) -> Convert:
    """Return what makes tensors of blocks, by a function of the user's from arrays."""

    def to_tensor(values: Values, column: Column | None, name: str) -> TorchValues:
        tensor = only_tensor(_to_torch(values, column, name), name)
        return torch.as_tensor(function(tensor.numpy()))

    return tensors(reader, options, to_tensor)


def collated(reader: DatasetReader, collate: Collate) -> Convert:
    """Return what makes a batch of the list of its rows."""

    def rows(batch: Batch) -> list[Any]:
        items = reader._mdstorm_make_items(batch)
        if not reader.batched_output:
            return list(map(row_for_torch, items))
        return [row for item in items for row in rows_of_columns(arrays_of(item))]

    def deliver(blocks: Iterator[Block]) -> Delivered:
        for block in blocks:
            for batch, mark, size in zip(block.batches(), block.marks, block.sizes, strict=True):
                yield collate(rows(batch)) if size else NOTHING, mark, size

    return deliver


def _to_torch(values: Values, column: Column | None, name: str) -> TorchValues:
    if column is None and isinstance(values, np.ndarray):
        return column_to_torch(values, name)  # a transform may have returned objects
    if column is not None and column.is_array and column.value_shape is None:
        # Without a type that promises lists: what has one shape in a batch is one tensor there.
        column = replace(column, spark_type=None)
    return to_torch(values, column, name)


def _without_nulls(blocks: Iterator[Block]) -> Iterator[Block]:
    """Yield blocks of rows, in which no null has a value."""
    for block in blocks:
        counts = {name: _null_count(values) for name, values in block.batch.items()}
        refuse_nulls_in_rows({name: count for name, count in counts.items() if count})
        yield block


def _null_count(values: Values) -> int:
    if isinstance(values, pa.Array):
        return int(values.null_count)
    return sum(value is None for value in values) if values.dtype == object else 0
