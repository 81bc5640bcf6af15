"""Attributes of a `StreamingDataset`, under MosaicML Streaming's names.

Subclasses may use any attribute names, so a dataset keeps its whole state in ``_mdstorm``. A
subclass may shadow the read-only attributes. It may also set an `Assignable` before it calls the
constructor, although the constructor's arguments then take precedence.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mdstorm_backend.cache.directory import CacheDirectory, FileIdentity
from mdstorm_backend.datasets.sample_access import Spanner, StoredShard
from mdstorm_backend.format import INDEX_NAME

Counts = npt.NDArray[np.int64]

if TYPE_CHECKING:
    from mdstorm_backend.datasets.dataset import Dataset
    from mdstorm_backend.format.index import ShardInfo
    from mdstorm_backend.loaders.torch.opened_dataset import OpenedDataset

    fact = property
else:

    class fact:  # noqa: N801  # used as `property` is
        """A property that an instance attribute of the same name may shadow."""

        def __init__(self, function: Callable[[Any], Any]) -> None:
            self._function = function
            self.__doc__ = function.__doc__

        def __get__(self, instance: object, owner: type | None = None) -> Any:
            return self if instance is None else self._function(instance)


class Assignable:
    """A constructor argument as an attribute; if it is set, later iterations use the new value."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, dataset: Any, owner: type | None = None) -> Any:
        if dataset is None:
            return self
        state = dataset.__dict__
        if "_mdstorm" in state:
            return state["_mdstorm"].shown(self._name)
        if self._name not in state:
            raise AttributeError(
                f"{self._name}: the constructor of StreamingDataset was not called"
            )
        return state[self._name]

    def __set__(self, dataset: Any, value: Any) -> None:
        state = dataset.__dict__
        if "_mdstorm" in state:
            type(dataset)._mdstorm_check({self._name: value})
            state["_mdstorm"].change(self._name, value)
        else:
            state[self._name] = value  # a subclass may set it before the constructor runs


class DatasetInfo:
    """A dataset's arguments, and counts and offsets for its samples, shards and streams.

    Samples and shards are numbered consecutively across all streams. A subclass may use the names
    of read-only attributes for its own attributes.
    """

    #: Everything that a dataset keeps, in one object.
    _mdstorm: OpenedDataset
    #: Checks the constructor's arguments, of which some can be assigned later.
    _mdstorm_check: Callable[[Mapping[str, Any]], None]

    batch_size = Assignable()
    shuffle = Assignable()
    shuffle_algo = Assignable()
    shuffle_seed = Assignable()
    shuffle_block_size = Assignable()
    num_canonical_nodes = Assignable()
    partition_algo = Assignable()
    batching_method = Assignable()
    sampling_method = Assignable()
    sampling_granularity = Assignable()
    epoch_size = Assignable()
    replication = Assignable()
    predownload = Assignable()
    cache_limit = Assignable()
    allow_unsafe_types = Assignable()
    streams = Assignable()

    @property
    def next_epoch(self) -> int:
        """The index of the next epoch."""
        return self._mdstorm.epochs.next_position.epoch

    @next_epoch.setter
    def next_epoch(self, epoch: int) -> None:
        self._mdstorm.set_epoch(epoch)

    @property
    def size(self) -> int:
        """Alias of `num_samples`."""
        return self.num_samples

    def __len__(self) -> int:
        """Number of samples that this rank reads in one epoch."""
        return self.length

    @fact
    def length(self) -> int:
        """Alias of ``len``."""
        return self._mdstorm.plan().rows_per_epoch

    @fact
    def initial_physical_nodes(self) -> int | None:
        """Number of nodes when the loaded state's epoch began, or None without a loaded state."""
        start = self._mdstorm.epochs.epoch_start
        return None if start is None else start.initial_physical_nodes

    @fact
    def epoch_seed_change(self) -> bool:
        """Whether each epoch that leaves out samples draws a different selection."""
        return bool(self.shuffle and self.sampling_method == "balanced")

    @fact
    def num_samples(self) -> int:
        """Number of samples in all streams, each counted once, or of chosen rows."""
        return len(self._mdstorm.options.dataset)

    @fact
    def num_streams(self) -> int:
        """Number of streams."""
        return len(self._mdstorm.parts)

    @fact
    def num_shards(self) -> int:
        """Number of shards."""
        return len(self._mdstorm.dataset.shard_sizes)

    @fact
    def shards(self) -> list[StoredShard]:
        """The shards, with their samples and their index entries."""
        infos = [shard for part in self._mdstorm.parts for shard in part.index.shards]
        return [StoredShard(info, self._mdstorm.dataset, i) for i, info in enumerate(infos)]

    @fact
    def samples_per_shard(self) -> Counts:
        """Number of samples in each shard."""
        return np.array(self._mdstorm.dataset.shard_sizes, np.int64)

    @fact
    def sample_offset_per_shard(self) -> Counts:
        """The index of each shard's first sample."""
        return np.array(self._mdstorm.dataset.bounds[:-1])

    @fact
    def samples_per_stream(self) -> Counts:
        """Number of samples in each stream."""
        return np.array([len(part) for part in self._mdstorm.parts], np.int64)

    @fact
    def sample_offset_per_stream(self) -> Counts:
        """The index of each stream's first sample."""
        offsets: Counts = np.cumsum(self.samples_per_stream) - self.samples_per_stream
        return offsets

    @fact
    def shards_per_stream(self) -> Counts:
        """Number of shards in each stream."""
        return np.array([len(part.shard_sizes) for part in self._mdstorm.parts], np.int64)

    @fact
    def shard_offset_per_stream(self) -> Counts:
        """The index of each stream's first shard."""
        offsets: Counts = np.cumsum(self.shards_per_stream) - self.shards_per_stream
        return offsets

    @fact
    def stream_per_shard(self) -> Counts:
        """The index of the stream that each shard belongs to."""
        numbers: Counts = np.repeat(np.arange(len(self._mdstorm.parts)), self.shards_per_stream)
        return numbers

    @fact
    def spanner(self) -> Spanner:
        """Locates samples: ``spanner[i]`` is the index of the shard and the row within it."""
        return Spanner(self.samples_per_shard)

    @fact
    def cache_usage(self) -> int:
        """Bytes that the streams use in their cache directories on this machine.

        Shards that are read in place do not use any.
        """
        return sum(map(_cached, self._mdstorm.parts))

    def prepare_shard(self, shard_id: int, blocking: bool = True) -> None:
        """Copy a shard to this machine unless it is already available here.

        Parameters
        ----------
        shard_id : int
            Index of the shard.
        blocking : bool
            Accepted for compatibility and ignored: the call always waits for the shard.

        Raises
        ------
        MDStormError
            If the shard cannot be copied or does not match the index.
        """
        part, info = self._mdstorm_stored(shard_id)
        dataset = self._mdstorm.dataset
        dataset.shard(range(len(dataset.shard_sizes))[shard_id])
        part.files.open(info)  # the copy of a shard that is still open may have been evicted

    def evict_shard(self, shard_id: int) -> None:
        """Remove the cached copy of a shard; it is copied again when needed.

        A shard that is read in place is kept. An open shard is kept until it is closed.

        Parameters
        ----------
        shard_id : int
            Index of the shard.
        """
        part, info = self._mdstorm_stored(shard_id)
        part.files.discard(info)

    def _mdstorm_stored(self, shard_id: int) -> tuple[Dataset, ShardInfo]:
        """Return the dataset that holds a shard, and the shard's index entry."""
        shards = [(part, info) for part in self._mdstorm.parts for info in part.index.shards]
        return shards[shard_id]


def _cached(part: Dataset) -> int:
    if part.is_mapped or part.files.directory is None:
        return 0
    directory = CacheDirectory(part.files.directory)
    infos = part.index.shards
    files = [file for info in infos for file in (info.raw_data, info.zip_data) if file is not None]
    paths = [directory.file(name) for name in (INDEX_NAME, *(file.basename for file in files))]
    return sum(found.size for path in paths if (found := FileIdentity.at(path)) is not None)
