"""`SampleMaker`: makes single samples, dicts from column to value."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from mdstorm_backend.base import cached_property
from mdstorm_backend.datasets import Dataset, open_streams
from mdstorm_backend.format import DTYPES, Batch, Column, is_number
from mdstorm_backend.format.values.nested_lists import elements_of
from mdstorm_backend.loaders.nulls import check_exact
from mdstorm_backend.loaders.reader_options import ReaderOptions
from mdstorm_backend.read import Block, column_to_numpy, stages


class SampleMaker:
    """Makes samples: dicts from column to value.

    Parameters
    ----------
    options : ReaderOptions
        How the dataset is read. Its transform is not applied, as it works on many samples at once.
    """

    def __init__(self, options: ReaderOptions) -> None:
        self._options = replace(options, steps=replace(options.steps, transform=None))
        self._dataset = options.dataset
        self._columns = options.columns

    @cached_property
    def decodes(self) -> bool:
        """Whether the format's decoder suffices to make samples: no nulls, images or files."""
        if not self._options.reading.only_copies:
            return False
        return not any(column.has_nulls for column in self._dataset.schema)

    @cached_property
    def is_row(self) -> bool:
        """Whether all columns are numeric, so that cutting samples from whole columns is faster."""
        dataset = self._dataset.all_rows
        parts = dataset.parts if isinstance(dataset, open_streams.JoinedDataset) else [dataset]
        return self.decodes and all(
            isinstance(part, Dataset)
            and part.schema.names == dataset.schema.names
            and all(_is_number(column, part) for column in part.schema)
            for part in parts
        )

    def __call__(self, number: int) -> dict[str, Any]:
        """Return one sample by its number in stored order."""
        if self._finish is not None:
            sample = self._dataset.sample(number, self._columns)
            for name, finish in self._finish.items():
                sample[name] = finish(sample[name])
            return sample
        shard, _ = self._dataset.locate(number)
        located = self._dataset.located(range(number, number + 1))
        located.shards = [self._dataset.shard(shard)]
        following = [*self._stages.batches, *self._stages.contents]
        block = stages.run(following, Block([1], parts=[located]))
        return next(of_batch(block.batch, self._options))

    @cached_property
    def _finish(self) -> dict[str, Callable[[Any], Any]] | None:
        """Functions by column that convert decoded values as a block would; None: read a block."""
        if self.decodes:
            return {}
        if not self._options.reading.only_copies:
            return None
        columns = [c for c in self._options.schema if c.has_nulls and not _is_text(c)]
        found = {column.name: _of_null_column(column) for column in columns}
        finish = {name: function for name, function in found.items() if function is not None}
        return finish if len(finish) == len(found) else None

    @cached_property
    def _stages(self) -> stages.Stages:
        return stages.stages_of(self._options.reading, cut=False)

    def __reduce__(self) -> tuple[Any, ...]:
        return SampleMaker, (self._options,)  # cached properties hold locks


def of_batch(batch: Batch, options: ReaderOptions) -> Iterator[dict[str, Any]]:
    """Yield the rows of a batch as samples."""
    columns = {}
    for name, values in batch.items():
        column = options.reading.column(name)
        if column is not None and column.has_nulls and not isinstance(values, np.ndarray):
            check_exact(elements_of(values), name)
        columns[name] = column_to_numpy(values, column)
    for row in zip(*columns.values(), strict=True):
        yield dict(zip(columns, row, strict=True))


def _is_number(column: Column, dataset: Dataset) -> bool:
    """Whether all values have the same NumPy type, decoded individually or as a column."""
    encoding = column.parsed_encoding
    if encoding.kind not in DTYPES or not is_number(column.arrow_type):
        return False
    if column.spark_type is not None:
        return True
    # A value decoded individually has the type that its shard stores.
    return len({shard.column_encodings for shard in dataset.index.shards}) == 1


def _of_null_column(column: Column) -> Callable[[Any], Any] | None:
    """Return a function that converts numbers and nulls like `of_batch`; None for other types."""
    if column.is_late or column.is_array:
        return None
    type_ = column.arrow_type
    if pa.types.is_floating(type_):
        kind = column.parsed_encoding.dtype
        return None if kind is None else partial(_or_nan, kind.type)
    if pa.types.is_integer(type_):
        return partial(_exact, column.name)
    if pa.types.is_boolean(type_):
        return partial(_or_nan, np.float64)
    return None


def _is_text(column: Column) -> bool:
    """Whether decoded values are strings or bytes, which need no conversion."""
    type_ = column.arrow_type
    return not column.is_late and (pa.types.is_string(type_) or pa.types.is_binary(type_))


def _or_nan(kind: Callable[[Any], Any], value: Any) -> Any:
    return kind(math.nan if value is None else value)


def _exact(name: str, value: Any) -> Any:
    if value is not None and abs(value) >= 1 << 53:
        check_exact(pa.array([value]), name)
    return _or_nan(np.float64, value)
