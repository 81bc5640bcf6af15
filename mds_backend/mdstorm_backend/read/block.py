"""A block: consecutive batches in one piece of memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from mdstorm_backend.format.values.batch import Batch, slice_batch
from mdstorm_backend.read.row_stream import Position
from mdstorm_backend.read.window import Range


class Transform(Protocol):
    """A function on batches that may change columns and rows.

    One that leaves columns as they are stored says so by an attribute ``unchanged``, a set of their
    names; one that leaves out rows for their values by a true attribute ``leaves_out_rows``.
    """

    @property
    def columns(self) -> Sequence[str]:
        """Columns of what it returns."""

    def __call__(self, batch: Batch) -> Batch:
        """Return the transformed rows."""


@dataclass
class Block:
    """Consecutive batches in one piece of memory.

    Attributes
    ----------
    sizes : list of int
        Rows of each batch.
    ends : list of Position
        Where the reader stands after each batch; empty in the elastic order.
    counts : list of int
        Samples of the dataset that each batch was made of; empty in the exact order.
    batch : Batch
        The rows of all of them.
    """

    sizes: list[int] = field(default_factory=list)
    ends: list[Position] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    ranges: list[Range] = field(default_factory=list)
    batch: Batch = field(default_factory=dict)

    @property
    def marks(self) -> list[Any]:
        """What tells a loader's pass how far it is after each batch: `ends` or `counts`."""
        return self.ends or self.counts

    def numbers(self) -> list[int]:
        """Numbers of the samples in the dataset, while the block is unread."""
        return [
            number
            for range_ in self.ranges
            for number in range_.window.numbers(range_.start, range_.stop).tolist()
        ]

    def batches(self) -> Iterator[Batch]:
        """Each batch as a view of the block."""
        start = 0
        for size in self.sizes:
            yield slice_batch(self.batch, start, start + size)
            start += size
