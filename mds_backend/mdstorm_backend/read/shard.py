"""The protocols of the reading core: shards, one of them in memory, and what readers read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mdstorm_backend.format.schema import Schema
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


class SampleSource(Protocol):
    """Samples with numbers from 0, in shards with numbers from 0."""

    @property
    def url(self) -> str:
        """Where they are, for messages."""

    @property
    def schema(self) -> Schema:
        """The columns of a whole batch."""

    @property
    def shard_sizes(self) -> tuple[int, ...]:
        """Samples of each shard."""

    @property
    def bounds(self) -> npt.NDArray[np.int64]:
        """Number of the first sample of each shard, and of all samples."""

    @property
    def nbytes(self) -> int:
        """Bytes of all shards, uncompressed."""

    @property
    def fingerprint(self) -> str:
        """Identity of the content, by which a checkpoint knows its dataset."""

    @property
    def is_mapped(self) -> bool:
        """Whether opening a shard is no more than mapping a file."""

    @property
    def bytes_ahead(self) -> int:
        """Bytes of shards to open ahead of use; 0 unless opening them is to wait for a network."""

    def __len__(self) -> int: ...

    def select(self, columns: Sequence[str] | None) -> tuple[str, ...]:
        """Return the names in `columns`, or of all columns for None."""

    def shard(self, number: int) -> Shard:
        """Open a shard."""

    def begin_shard(self, number: int) -> Shard:
        """Open a shard for a reader that waits for the rows it reads, see `Shard.wait_for`.

        It is not among those that are found open.
        """

    def find_open(self, number: int) -> Shard | None:
        """Return a shard if it is open."""

    def release(self) -> None:
        """Let go of shards that are kept open for later; they are opened again when needed."""

    def locate(self, i: int) -> tuple[int, int]:
        """Return the number of the shard that holds sample `i`, and its row there."""

    def sample(self, i: int, columns: Sequence[str] | None = None) -> dict[str, Any]:
        """Return sample `i`, all of its columns for None."""
