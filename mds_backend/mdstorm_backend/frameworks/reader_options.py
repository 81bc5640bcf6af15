"""What an adapter needs to know to read: the dataset and how, in plain values that pickle."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from mdstorm_backend.dataset import Dataset
from mdstorm_backend.frameworks.nulls import NullPolicy
from mdstorm_backend.order import ExactOrder
from mdstorm_backend.read.batch_reader import BatchReader
from mdstorm_backend.read.block import Transform
from mdstorm_backend.schema import Column, Schema

__all__ = ["ReaderOptions"]


@dataclass(frozen=True)
class ReaderOptions:
    """How to read a dataset.

    Attributes
    ----------
    dataset : Dataset
        What to read.
    order : ExactOrder
        In which order; its seed is fixed.
    columns : tuple of str or None
        Which columns, in which order; None for all.
    num_epochs : int or None
        Passes over the data; None never ends.
    transform : Transform, optional
        Called with each shard's share of the rows.
    fill_nulls : mapping of str to value
        What takes the place of nulls, before the transform.
    null_masks : tuple of str
        Columns that get a boolean companion which tells their nulls.
    workers, prefetch : int
        Threads that read ahead, and blocks that may be ready.
    """

    dataset: Dataset
    order: ExactOrder
    columns: tuple[str, ...] | None = None
    num_epochs: int | None = 1
    transform: Transform | None = None
    fill_nulls: Mapping[str, Any] | None = None
    null_masks: Sequence[str] = ()
    workers: int = 2
    prefetch: int = 4

    @cached_property
    def schema(self) -> Schema:
        """The columns that are read."""
        return self.dataset.schema.select(self.dataset.select(self.columns))

    @cached_property
    def nulls(self) -> NullPolicy:
        """What happens to nulls."""
        return NullPolicy(self.schema, self.fill_nulls, self.null_masks)

    @property
    def delivered(self) -> tuple[str, ...]:
        """Names of the columns of a batch."""
        return tuple(self.transform.columns) if self.transform else self.nulls.columns

    def column(self, name: str) -> Column | None:
        """The stored column behind a delivered one; None if a transform or a mask has made it.

        A column whose nulls are filled has none.
        """
        return None if self.transform is not None else self._columns.get(name)

    @cached_property
    def _columns(self) -> dict[str, Column]:
        return {
            column.name: column
            if self.nulls.remaining(column)
            else replace(column, null_count=0, element_null_count=0)
            for column in self.schema
        }

    def reader(self, batch_size: int, **options: Any) -> BatchReader:
        """Make a reader; further `options` are those of `BatchReader`."""
        return BatchReader(
            self.dataset,
            self.order,
            batch_size=batch_size,
            num_epochs=self.num_epochs,
            columns=self.schema.names,
            transform=self.transform,
            prepare=None if self.nulls.is_trivial else self.nulls,
            exact_nulls=not self.nulls.is_trivial,
            workers=self.workers,
            prefetch=self.prefetch,
            **options,
        )
