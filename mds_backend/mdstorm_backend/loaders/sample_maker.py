"""Make single samples, by number or from a block."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from mdstorm_backend.base import cached_property
from mdstorm_backend.datasets.dataset import Dataset
from mdstorm_backend.datasets.open_streams import JoinedDataset
from mdstorm_backend.format import DTYPES, Batch, Column, is_number
from mdstorm_backend.format.values.nested_lists import elements_of
from mdstorm_backend.loaders.nulls import check_exact
from mdstorm_backend.loaders.reader_options import ReaderOptions
from mdstorm_backend.read.batch_formats import column_to_numpy
from mdstorm_backend.read.block import Located
from mdstorm_backend.read.decoded_images import reading_samples
from mdstorm_backend.read.gather_rows import Gatherer


class SampleMaker:
    """Makes samples: dicts from column to value.

    Parameters
    ----------
    options : ReaderOptions
        How the dataset is read. A transform is not applied: it works on many samples at a time.
    """

    def __init__(self, options: ReaderOptions) -> None:
        self._options = replace(options, transform=None)
        self._dataset = options.dataset
        self._columns = options.columns

    @cached_property
    def decodes(self) -> bool:
        """Whether the format's decoder makes the samples: no nulls, and no images to decode."""
        options = self._options
        if options.fill_nulls or options.null_masks or options.images is not None:
            return False
        return not any(column.has_nulls for column in self._dataset.schema)

    @cached_property
    def is_row(self) -> bool:
        """Whether all columns are numbers, so samples can be cut from whole columns, faster."""
        dataset = self._dataset
        parts = dataset.parts if isinstance(dataset, JoinedDataset) else [dataset]
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
        located = Located(range(number, number + 1), self._dataset.bounds)
        located.shards = [self._dataset.shard(shard)]
        batch = self._gather([located])
        if not self._options.nulls.is_trivial:
            batch = self._options.nulls(batch)
        if self._options.images is not None:
            with reading_samples(lambda: [number]):
                batch = self._options.images(batch)
        return next(of_batch(batch, self._options))

    @cached_property
    def _finish(self) -> dict[str, Callable[[Any], Any]] | None:
        """Functions that turn decoded values into those of a block; None if only a block can."""
        if self.decodes:
            return {}
        if not self._options.nulls.is_trivial or self._options.images is not None:
            return None
        columns = [c for c in self._options.schema if c.has_nulls and not _is_text(c)]
        found = {column.name: _of_null_column(column) for column in columns}
        finish = {name: function for name, function in found.items() if function is not None}
        return finish if len(finish) == len(found) else None

    @cached_property
    def _gather(self) -> Gatherer:
        options = self._options
        return Gatherer(options.schema, exact_nulls=not options.nulls.is_trivial)

    def __reduce__(self) -> tuple[Any, ...]:
        return SampleMaker, (self._options,)  # cached values hold locks


def _is_number(column: Column, dataset: Dataset) -> bool:
    """Whether all values are NumPy scalars of one type, decoded singly or as a column."""
    encoding = column.parsed_encoding
    if encoding.kind not in DTYPES or not is_number(column.arrow_type):
        return False
    if column.spark_type is not None:
        return True
    # A single value has the type of its shard.
    return len({shard.column_encodings for shard in dataset.index.shards}) == 1


def _of_null_column(column: Column) -> Callable[[Any], Any] | None:
    """Return the function that converts a value with nulls as `of_batch` does; None if complex."""
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
    """Whether decoded values are text or bytes, which need no conversion."""
    type_ = column.arrow_type
    return not column.is_late and (pa.types.is_string(type_) or pa.types.is_binary(type_))


def _or_nan(kind: Callable[[Any], Any], value: Any) -> Any:
    return kind(math.nan if value is None else value)


def _exact(name: str, value: Any) -> Any:
    if value is not None and abs(value) >= 1 << 53:
        check_exact(pa.array([value]), name)
    return _or_nan(np.float64, value)


def of_batch(batch: Batch, options: ReaderOptions) -> Iterator[dict[str, Any]]:
    """Yield the rows of a batch as samples."""
    columns = {}
    for name, values in batch.items():
        column = options.column(name)
        if column is not None and column.has_nulls and not isinstance(values, np.ndarray):
            check_exact(elements_of(values), name)
        columns[name] = column_to_numpy(values, column)
    for row in zip(*columns.values(), strict=True):
        yield dict(zip(columns, row, strict=True))
