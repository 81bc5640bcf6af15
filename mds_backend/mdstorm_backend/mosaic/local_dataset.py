"""`LocalDataset`: the samples of a local MDS directory by number, in PyTorch."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from mdstorm_backend.base import require
from mdstorm_backend.datasets import open_mds
from mdstorm_backend.datasets.sample_access import Array, Spanner, StoredShard
from mdstorm_backend.kinds import explaining_absence

require("torch")

from torch.utils.data import Dataset  # noqa: E402

from mdstorm_backend.loaders.torch.dataset_info import fact  # noqa: E402


class LocalDataset(Array, Dataset[Any]):
    """A map-style dataset over a local MDS directory, like MosaicML Streaming's `LocalDataset`.

    It can be subclassed, pickled, and read by a ``DataLoader`` with any sampler and any number of
    workers. Subclasses override ``__getitem__`` or `get_item`, and may use any other name.

    Parameters
    ----------
    local : str
        The dataset directory.
    split : str, optional
        Subdirectory to read.
    allow_unsafe_types : bool
        Whether to unpickle columns with the encoding ``pkl``. Whoever wrote them can run code on
        this machine.

    Attributes
    ----------
    local, split : str
        The values passed; without a split, ``""``.

    Raises
    ------
    DatasetNotFoundError
        If there is no dataset.
    CorruptDatasetError
        If the index cannot be parsed.
    UnsafeTypeError
        If columns hold pickles; raised when the first sample is read.
    """

    def __init__(
        self, local: str, split: str | None = None, *, allow_unsafe_types: bool = False
    ) -> None:
        self.local, self.split = os.fspath(local), split or ""
        path = os.path.join(self.local, self.split) if self.split else self.local
        #: The whole state of the dataset.
        with explaining_absence():
            self._mdstorm = open_mds(path, allow_unsafe_types=allow_unsafe_types)

    def __len__(self) -> int:
        """Number of samples."""
        return self.num_samples

    @property
    def size(self) -> int:
        """Number of samples."""
        return self.num_samples

    @fact
    def num_samples(self) -> int:
        """Number of samples."""
        return len(self._mdstorm)

    @fact
    def shards(self) -> list[StoredShard]:
        """The shards, with their samples and the index's metadata."""
        infos = self._mdstorm.index.shards
        return [StoredShard(info, self._mdstorm, i) for i, info in enumerate(infos)]

    @fact
    def spanner(self) -> Spanner:
        """Locates samples: ``spanner[i]`` is the index of sample `i`'s shard and its row there."""
        return Spanner(np.asarray(self._mdstorm.shard_sizes, np.int64))

    def get_item(self, sample_id: int) -> Any:
        """Return one sample as it was written: a dict from column to value."""
        return self._mdstorm.sample(sample_id)
