"""Single samples of a dataset, as its options say: by number, or out of a block."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

from mdstorm_backend.batch import Batch
from mdstorm_backend.frameworks.formats import column_to_numpy
from mdstorm_backend.frameworks.reader_options import ReaderOptions
from mdstorm_backend.read.gather import Gatherer
from mdstorm_backend.read.window import Range, Source, Window

__all__ = ["SampleMaker", "of_batch"]


class SampleMaker:
    """Makes samples: dicts from column to value.

    Parameters
    ----------
    options : ReaderOptions
        How the dataset is read. A transform is left out: it works on many samples at a time.
    """

    def __init__(self, options: ReaderOptions) -> None:
        self._options = replace(options, transform=None)
        self._dataset = options.dataset
        self._columns = options.columns

    @cached_property
    def decodes(self) -> bool:
        """Whether samples are what the format's own decoder gives: nulls need more."""
        if self._options.fill_nulls or self._options.null_masks:
            return False
        return not any(column.has_nulls for column in self._dataset.schema)

    def __call__(self, number: int) -> dict[str, Any]:
        """Return one sample by its number in stored order."""
        if self.decodes:
            return self._dataset.sample(number, self._columns)
        shard, row = self._dataset.locate(number)
        source = Source(self._dataset.shard(shard), row, row + 1)
        batch = self._gather([Range(Window([source], None), 0, 1)])
        if not self._options.nulls.is_trivial:
            batch = self._options.nulls(batch)
        return next(of_batch(batch, self._options))

    @cached_property
    def _gather(self) -> Gatherer:
        options = self._options
        return Gatherer(options.schema, exact_nulls=not options.nulls.is_trivial)

    def __reduce__(self) -> tuple[Any, ...]:
        return SampleMaker, (self._options,)


def of_batch(batch: Batch, options: ReaderOptions) -> Iterator[dict[str, Any]]:
    """Yield the rows of a batch as samples."""
    columns = {
        name: column_to_numpy(values, options.column(name)) for name, values in batch.items()
    }
    for row in zip(*columns.values(), strict=True):
        yield dict(zip(columns, row, strict=True))
