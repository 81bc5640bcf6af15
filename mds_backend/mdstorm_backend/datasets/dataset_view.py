"""`DatasetView`: the base class for datasets that present another one differently."""

from __future__ import annotations

from collections.abc import Sequence

from mdstorm_backend.datasets.sample_dataset import SampleDataset, Storage
from mdstorm_backend.read import Shard


class DatasetView(SampleDataset):
    """A dataset that reads the shards of another dataset.

    By default, `shard`, `begin_shard` and `find_open` take that dataset's numbers of shards.

    Parameters
    ----------
    source : SampleDataset
        The other dataset.
    shard_sizes : sequence of int
        Number of samples in each shard of this dataset.
    """

    def __init__(self, source: SampleDataset, shard_sizes: Sequence[int]) -> None:
        self.source = source
        self.url, self.schema, self.bytes_ahead = source.url, source.schema, source.bytes_ahead
        self.root, self.cache = source.root, source.cache
        self.shard_sizes = tuple(shard_sizes)
        per_row = source.nbytes / max(len(source), 1)  # estimated in proportion to rows
        self.shard_bytes = tuple(int(size * per_row) for size in shard_sizes)

    @property
    def stored(self) -> SampleDataset:
        """The dataset as it is stored, below all views."""
        return self.source.stored

    @property
    def is_mapped(self) -> bool:
        """Whether opening a shard only maps a file."""
        return self.source.is_mapped

    def storage(self) -> Storage:
        """Return how the other dataset is stored."""
        return self.source.storage()

    def files_identity(self) -> str:
        """Identify the state of the other dataset's files."""
        return self.source.files_identity()

    def select(self, columns: Sequence[str] | None) -> tuple[str, ...]:
        """Return the names of the columns to read."""
        return self.source.select(columns)

    def shard(self, number: int) -> Shard:
        """Open a shard of the other dataset."""
        return self.source.shard(number)

    def begin_shard(self, number: int) -> Shard:
        """Open a shard of the other dataset, which may still be downloading."""
        return self.source.begin_shard(number)

    def find_open(self, number: int) -> Shard | None:
        """Return a shard of the other dataset if it is open."""
        return self.source.find_open(number)

    def release(self) -> None:
        """Close shards that are kept open."""
        self.source.release()
