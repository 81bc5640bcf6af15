"""What the reading core asks of a shard, and the shard that holds its rows in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from mdstorm_backend.batch import Batch, num_rows, take_values

__all__ = ["MemoryShard", "Rows", "Shard", "contiguous"]

#: Sample numbers within a shard: ascending and without repetition.
Rows = npt.NDArray[np.int64]


class Shard(Protocol):
    """Some samples that are read together.

    An MDS shard is one implementation; what a transform returned is another.
    """

    @property
    def num_samples(self) -> int:
        """Number of samples."""
        ...

    def read(self, rows: Rows, columns: Sequence[str], *, exact_nulls: bool = False) -> Batch:
        """Decode the samples `rows` (ascending, without repetition) of some columns.

        The values are copies that nothing else refers to. With `exact_nulls` a null in a
        floating-point column is a null of an Arrow array and not NaN.
        """
        ...


class MemoryShard:
    """A batch in memory as a shard.

    Parameters
    ----------
    batch : Batch
        The samples. They are kept, not copied.
    """

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.num_samples = num_rows(batch)

    def read(self, rows: Rows, columns: Sequence[str], *, exact_nulls: bool = False) -> Batch:
        """Copy the samples `rows` of some columns."""
        return {name: take_values(self.batch[name], rows) for name in columns}


def contiguous(rows: Rows) -> slice | None:
    """Return the slice that ascending `rows` cover without a gap, or None."""
    if len(rows) == 0:
        return slice(0, 0)
    first, last = int(rows[0]), int(rows[-1])
    return slice(first, last + 1) if last - first + 1 == len(rows) else None
