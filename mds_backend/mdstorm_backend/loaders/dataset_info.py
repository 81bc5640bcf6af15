"""Counts, offsets and shards, as MosaicML Streaming's datasets report them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import accumulate
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from mdstorm_backend.cache.directory import CacheDirectory
from mdstorm_backend.format.index import INDEX_NAME, ShardInfo

if TYPE_CHECKING:
    from mdstorm_backend.datasets.dataset import Dataset
    from mdstorm_backend.read.source import SampleSource

Counts = npt.NDArray[np.int64]


class DatasetInfo:
    """Counts and offsets of the samples, shards and streams of a dataset.

    Samples and shards are numbered through all streams.
    """

    if TYPE_CHECKING:

        @property
        def dataset(self) -> SampleSource:
            """The data, opened on first use."""

        @property
        def parts(self) -> Sequence[Dataset]:
            """The dataset of each stream."""

    @property
    def num_samples(self) -> int:
        """Samples of all streams, each counted once."""
        return len(self.dataset)

    @property
    def size(self) -> int:
        """The same as `num_samples`."""
        return len(self.dataset)

    @property
    def num_streams(self) -> int:
        """Number of streams."""
        return len(self.parts)

    @property
    def num_shards(self) -> int:
        """Number of shards."""
        return len(self.dataset.shard_sizes)

    @property
    def shards(self) -> list[ShardInfo]:
        """What the indexes say of the shards."""
        return [shard for part in self.parts for shard in part.index.shards]

    @property
    def samples_per_shard(self) -> Counts:
        """Samples of each shard."""
        return np.array(self.dataset.shard_sizes, np.int64)

    @property
    def sample_offset_per_shard(self) -> Counts:
        """Number of the first sample of each shard."""
        return np.array(self.dataset.bounds[:-1])

    @property
    def samples_per_stream(self) -> Counts:
        """Samples of each stream."""
        return np.array([len(part) for part in self.parts], np.int64)

    @property
    def sample_offset_per_stream(self) -> Counts:
        """Number of the first sample of each stream."""
        return _offsets(self.samples_per_stream)

    @property
    def shards_per_stream(self) -> Counts:
        """Shards of each stream."""
        return np.array([len(part.shard_sizes) for part in self.parts], np.int64)

    @property
    def shard_offset_per_stream(self) -> Counts:
        """Number of the first shard of each stream."""
        return _offsets(self.shards_per_stream)

    @property
    def stream_per_shard(self) -> Counts:
        """Number of the stream that each shard belongs to."""
        numbers: Counts = np.repeat(np.arange(self.num_streams), self.shards_per_stream)
        return numbers

    @property
    def spanner(self) -> Spanner:
        """Finds samples: ``spanner[i]`` is the number of a sample's shard, and its row there."""
        return Spanner(self.dataset)

    @property
    def cache_usage(self) -> int:
        """Bytes that the streams take in their cache directories on this machine.

        Shards that are read where they are take none.
        """
        return sum(map(_cached, self.parts))

    def prepare_shard(self, shard_id: int, blocking: bool = True) -> None:
        """Bring a shard to this machine.

        Parameters
        ----------
        shard_id : int
            Its number.
        blocking : bool
            Accepted, and without effect: it is there when this returns.

        Raises
        ------
        MDStormError
            If it cannot be brought there, or is not what the index says.
        """
        self.dataset.shard(range(self.num_shards)[shard_id])


class Spanner:
    """Finds the shard and the row of a sample."""

    def __init__(self, dataset: SampleSource) -> None:
        self._dataset = dataset

    def __getitem__(self, index: int) -> tuple[int, int]:
        return self._dataset.locate(index)


def _offsets(counts: Counts) -> Counts:
    return np.array([0, *accumulate(counts.tolist())][:-1], np.int64)


def _cached(part: Dataset) -> int:
    if part.is_mapped or part.files.directory is None:
        return 0
    directory = CacheDirectory(part.files.directory)
    infos = part.index.shards
    files = [file for info in infos for file in (info.raw_data, info.zip_data) if file is not None]
    paths = [directory.file(name) for name in (INDEX_NAME, *(file.basename for file in files))]
    return sum(os.stat(path).st_size for path in paths if os.path.exists(path))
