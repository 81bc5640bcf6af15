"""The `Shard` protocol of the reading core, and a shard held in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mdstorm_backend.format.values.batch import Batch, num_rows, take_values
from mdstorm_backend.storage import Arrival

#: Sample numbers within a shard: ascending and without repetition.
Rows = npt.NDArray[np.int64]


class Shard(Protocol):
    """Some samples that are read together. Safe to share between threads.

    An MDS shard is one implementation, a row group of a Parquet file another. What has a body here
    is right for any shard that derives from this class.
    """

    num_samples: int
    #: The file while its samples are on their way; what stands before them is there.
    arrival: Arrival | None = None

    @property
    def memory(self) -> int:
        """Bytes that it keeps in memory; 0 if it is mapped."""
        return 0

    def wait_for(self, stop: int) -> None:
        """Wait until the samples before `stop` are there."""
        return

    def will_need(self) -> None:
        """Ask the operating system to read ahead what is mapped."""
        return

    def make_ready(self, columns: Sequence[str], *, exact_nulls: bool = False) -> None:
        """Do ahead of use what `read` of these columns has to do once for all samples."""
        return

    def decoded(self, columns: Sequence[str], *, exact_nulls: bool = False) -> Batch | None:
        """Return all samples as `read` would, if they are in memory that way; not to be changed.

        None for a shard whose samples are decoded as they are asked for.
        """
        return None

    def read(self, rows: Rows, columns: Sequence[str], *, exact_nulls: bool = False) -> Batch:
        """Decode the samples `rows` (ascending, without repetition) of some columns.

        The values are copies that nothing else refers to. With `exact_nulls` a null in a
        floating-point column is a null of an Arrow array and not NaN.
        """

    def sample(self, row: int, columns: Sequence[str] | None = None) -> dict[str, Any]:
        """Return one sample, all of its columns for None."""


class MemoryShard(Shard):
    """A batch in memory as a shard, which a transform returned.

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

    def decoded(self, columns: Sequence[str], *, exact_nulls: bool = False) -> Batch:
        """Return some columns as they are."""
        return {name: self.batch[name] for name in columns}

    def sample(self, row: int, columns: Sequence[str] | None = None) -> dict[str, Any]:
        """Return one sample, as NumPy has it or as a Python object."""
        return {
            name: values[row] if isinstance(values, np.ndarray) else values[row].as_py()
            for name, values in self.batch.items()
            if columns is None or name in columns
        }


def contiguous(rows: Rows) -> slice | None:
    """Return the slice that ascending `rows` cover without a gap, or None."""
    if len(rows) == 0:
        return slice(0, 0)
    first, last = int(rows[0]), int(rows[-1])
    return slice(first, last + 1) if last - first + 1 == len(rows) else None
