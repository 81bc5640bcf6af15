"""A block: consecutive batches in one piece of memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from mdstorm_backend.format.values.batch import Batch, slice_batch
from mdstorm_backend.read.located import Located


class Transform(Protocol):
    """A function on batches that may change columns and rows.

    One that leaves columns as they are stored says so by an attribute ``unchanged``, a set of their
    names; one that leaves out rows for their values by a true attribute ``leaves_out_rows``; and
    one that returns each row in its place, however many it is given, by a true ``keeps_rows``.
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
    marks : list
        For each batch what tells a pass where it stands after it: the samples of the dataset that
        it was made of, or a `Position` where nobody can count them.
    parts : list of Located
        The samples of all of them, until they are read.
    batch : Batch
        The rows of all of them, once they are.
    """

    sizes: list[int] = field(default_factory=list)
    marks: list[Any] = field(default_factory=list)
    parts: list[Located] = field(default_factory=list)
    batch: Batch = field(default_factory=dict)

    def numbers(self) -> list[int]:
        """Numbers of the samples in the dataset, while the block is unread."""
        return [
            number
            for part in self.parts
            for number in (part.chunk if isinstance(part.chunk, range) else part.chunk.tolist())
        ]

    def batches(self) -> Iterator[Batch]:
        """Each batch as a view of the block."""
        start = 0
        for size in self.sizes:
            yield slice_batch(self.batch, start, start + size)
            start += size
