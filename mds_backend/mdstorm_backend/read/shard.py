"""The protocols `Shard` and `SampleSource`, which readers read, and shards in memory."""

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
    """Samples that are stored and read together. Thread-safe.

    An MDS shard is one implementation, a row group of a Parquet file another. Methods with a body
    are defaults for shards that derive from this class.
    """

    num_samples: int
    #: The file while its samples are still being downloaded; its header has arrived.
    arrival: Arrival | None = None

    @property
    def memory(self) -> int:
        """Bytes held in memory; 0 for a mapped file."""
        return 0

    def wait_for(self, stop: int) -> None:
        """Wait until the samples before `stop` have arrived."""
        return

    def will_need(self) -> None:
        """Advise the operating system to read ahead if the file is mapped."""
        return

    def make_ready(self, columns: Sequence[str], *, exact_nulls: bool = False) -> None:
        """Do the work for these columns that is done once for all samples, ahead of use."""
        return

    def decoded(self, columns: Sequence[str], *, exact_nulls: bool = False) -> Batch | None:
        """Return all samples as `read` would, if they are decoded in memory; must not be modified.

        None for a shard whose samples are decoded on request.
        """
        return None

    def read(self, rows: Rows, columns: Sequence[str], *, exact_nulls: bool = False) -> Batch:
        """Decode the given columns of the samples `rows` (ascending, without repetition).

        The values are independent copies. With `exact_nulls` a null in a floating-point column is
        a null of an Arrow array, not NaN.
        """

    def sample(self, row: int, columns: Sequence[str] | None = None) -> dict[str, Any]:
        """Return one sample; by default all of its columns."""


class MemoryShard(Shard):
    """A batch that a transform returned, as a shard in memory.

    Parameters
    ----------
    batch : Batch
        The samples; kept, not copied.
    """

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.num_samples = num_rows(batch)

    def read(self, rows: Rows, columns: Sequence[str], *, exact_nulls: bool = False) -> Batch:
        """Copy the given columns of the samples `rows`."""
        return {name: take_values(self.batch[name], rows) for name in columns}

    def decoded(self, columns: Sequence[str], *, exact_nulls: bool = False) -> Batch:
        """Return the given columns without copying."""
        return {name: self.batch[name] for name in columns}

    def sample(self, row: int, columns: Sequence[str] | None = None) -> dict[str, Any]:
        """Return one sample; values are NumPy values or Python objects."""
        return {
            name: values[row] if isinstance(values, np.ndarray) else values[row].as_py()
            for name, values in self.batch.items()
            if columns is None or name in columns
        }


def contiguous(rows: Rows) -> slice | None:
    """Return ascending `rows` as a slice, or None if they have gaps."""
    if len(rows) == 0:
        return slice(0, 0)
    first, last = int(rows[0]), int(rows[-1])
    return slice(first, last + 1) if last - first + 1 == len(rows) else None


class SampleSource(Protocol):
    """A dataset as readers see it: samples numbered from 0, in shards numbered from 0."""

    @property
    def url(self) -> str:
        """Location of the samples, for messages."""

    @property
    def schema(self) -> Schema:
        """All columns."""

    @property
    def shard_sizes(self) -> tuple[int, ...]:
        """Number of samples of each shard."""

    @property
    def bounds(self) -> npt.NDArray[np.int64]:
        """Number of the first sample of each shard, then the total number of samples."""

    @property
    def nbytes(self) -> int:
        """Total uncompressed bytes of all shards."""

    @property
    def fingerprint(self) -> str:
        """Identity of the content, by which a checkpoint recognises its dataset."""

    @property
    def is_mapped(self) -> bool:
        """Whether opening a shard only maps a file."""

    @property
    def bytes_ahead(self) -> int:
        """Bytes of shards to open ahead of use; 0 unless opening waits for a network."""

    def __len__(self) -> int: ...

    def select(self, columns: Sequence[str] | None) -> tuple[str, ...]:
        """Return the names in `columns`; all column names for None."""

    def shard(self, number: int) -> Shard:
        """Open a shard."""

    def begin_shard(self, number: int) -> Shard:
        """Open a shard for a reader that waits for the rows it reads, see `Shard.wait_for`.

        `find_open` need not find it.
        """

    def find_open(self, number: int) -> Shard | None:
        """Return a shard if it is open, else None."""

    def release(self) -> None:
        """Release shards that are kept open; they are opened again when needed."""

    def locate(self, i: int) -> tuple[int, int]:
        """Return the number of the shard that holds sample `i`, and the sample's row there."""

    def sample(self, i: int, columns: Sequence[str] | None = None) -> dict[str, Any]:
        """Return sample `i`; by default all of its columns."""
