"""The protocol of what readers read: one dataset, or several joined."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mdstorm_backend.format.schema import Schema
from mdstorm_backend.read.shard import Shard


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
