"""The `SampleSource` protocol: a dataset as readers see it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mdstorm_backend.format import Schema
from mdstorm_backend.order import Chunk
from mdstorm_backend.read.added_columns import AddedColumn, Numbers
from mdstorm_backend.read.block import Located, Opened
from mdstorm_backend.read.file_reader import FileReader
from mdstorm_backend.read.shard import Shard
from mdstorm_backend.storage import Location


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
        """Number of samples in each shard."""

    @property
    def bounds(self) -> npt.NDArray[np.int64]:
        """Number of the first sample of each shard, then the total number of samples."""

    @property
    def nbytes(self) -> int:
        """Total uncompressed size of all shards, in bytes."""

    @property
    def fingerprint(self) -> str:
        """Identifies the content, so that a checkpoint can recognise its dataset."""

    def content_identity(self) -> str:
        """Identify the content and the time of its files; see `SampleDataset`."""

    def files_identity(self) -> str:
        """Identify the state of the files, as far as the fingerprint does not."""

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
        """Open a shard for a reader that waits for the rows it reads; see `Shard.wait_for`.

        `find_open` does not have to find this shard.
        """

    def find_open(self, number: int) -> Shard | None:
        """Return a shard if it is open, else None."""

    def release(self) -> None:
        """Release shards that are kept open; they are opened again when needed."""

    @property
    def all_rows(self) -> SampleSource:
        """The dataset with all of its rows: another one if this one consists of chosen rows."""

    @property
    def chosen(self) -> str | None:
        """Identifies the chosen rows; None if this is the whole dataset."""

    @property
    def first_rows(self) -> npt.NDArray[np.int64]:
        """Number of each shard's first row in the whole dataset, before shards were left out."""

    @property
    def added(self) -> Mapping[str, AddedColumn]:
        """Make the columns that are not stored, by name."""

    @property
    def file_reader(self) -> FileReader | None:
        """Reads the files whose contents are in added columns."""

    @property
    def root(self) -> Location | None:
        """The dataset's own directory, which the user named; None if there is none."""

    @property
    def cache(self) -> Any:
        """How files are copied to this machine, as `CacheOptions`; None for the defaults."""

    @property
    def where(self) -> str:
        """The conditions that chose the rows, to be shown; empty if there were none."""

    def may_match(self, filters: Any, unbounded: Collection[str] = ()) -> npt.NDArray[np.bool_]:
        """Return for each shard whether a row may match `Filters`, without reading rows."""

    def stored_numbers(self, numbers: Numbers) -> Numbers:
        """Return the numbers that samples have in the whole dataset."""

    def samples_of(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """Return the numbers of the samples that are rows of the whole dataset, ascending."""

    def located(
        self, chunk: Chunk, kept: Opened | None = None, *, is_first: bool = False
    ) -> Located:
        """Find the shards and rows of samples; see `Located` for the arguments."""

    def locate(self, i: int) -> tuple[int, int]:
        """Return the number of the shard that holds sample `i`, and the sample's row there."""

    def sample(self, i: int, columns: Sequence[str] | None = None) -> dict[str, Any]:
        """Return sample `i`; by default all of its columns."""
