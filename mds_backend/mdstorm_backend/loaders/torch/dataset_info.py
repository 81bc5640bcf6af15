"""What a `StreamingDataset` tells of itself, under the names of MosaicML Streaming.

Subclasses give attributes whatever names they like, so that a dataset keeps nothing of its own but
``_mdstorm``. What it tells of itself a subclass may hide; what it can be told it may say before it
calls the constructor, which decides.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from mdstorm_backend.cache.directory import CacheDirectory, FileIdentity
from mdstorm_backend.datasets.sample_access import Spanner, StoredShard
from mdstorm_backend.format import INDEX_NAME, parse_size

Counts = npt.NDArray[np.int64]

if TYPE_CHECKING:
    from mdstorm_backend.datasets.dataset import Dataset
    from mdstorm_backend.format.index import ShardInfo
    from mdstorm_backend.loaders.torch.opened_dataset import OpenedDataset

    fact = property
else:

    class fact:  # noqa: N801  # used as `property` is
        """A property that an instance can have an attribute in the place of."""

        def __init__(self, function: Callable[[Any], Any]) -> None:
            self._function = function
            self.__doc__ = function.__doc__

        def __get__(self, instance: object, owner: type | None = None) -> Any:
            return self if instance is None else self._function(instance)


def _opened(dataset: Any) -> OpenedDataset | None:
    opened: OpenedDataset | None = dataset.__dict__.get("_mdstorm")
    return opened


class Argument:
    """An argument that can be read under its name. A subclass may use the name for itself."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, dataset: Any, owner: type | None = None) -> Any:
        if dataset is None:
            return self
        opened = _opened(dataset)
        if opened is None:
            raise AttributeError(
                f"{self._name}: the constructor of StreamingDataset was not called"
            )
        return opened.shown(self._name)


class SettableArgument(Argument):
    """An argument that can be read, and be set for the iterations that follow."""

    def __get__(self, dataset: Any, owner: type | None = None) -> Any:
        if dataset is not None and _opened(dataset) is None and self._name in dataset.__dict__:
            return dataset.__dict__[self._name]
        return super().__get__(dataset, owner)

    def __set__(self, dataset: Any, value: Any) -> None:
        opened = _opened(dataset)
        if opened is None:
            dataset.__dict__[self._name] = value  # for the subclass itself, until it is made
        else:
            opened.change(self._name, value)


class ArgumentInBytes(SettableArgument):
    """A size, in bytes also if it was passed as text."""

    def __get__(self, dataset: Any, owner: type | None = None) -> Any:
        size = super().__get__(dataset, owner)
        return parse_size(size) if isinstance(size, str) else size


class DatasetInfo:
    """The arguments of a dataset; counts and offsets of its samples, shards and streams.

    Samples and shards are numbered through all streams. A subclass may use the names of what cannot
    be set for itself.
    """

    #: Everything that a dataset keeps.
    _mdstorm: OpenedDataset

    batch_size = SettableArgument()
    shuffle = SettableArgument()
    shuffle_algo = SettableArgument()
    shuffle_seed = SettableArgument()
    shuffle_block_size = SettableArgument()
    num_canonical_nodes = SettableArgument()
    partition_algo = SettableArgument()
    batching_method = SettableArgument()
    sampling_method = SettableArgument()
    sampling_granularity = SettableArgument()
    epoch_size = SettableArgument()
    replication = SettableArgument()
    predownload = SettableArgument()
    cache_limit = ArgumentInBytes()
    allow_unsafe_types = SettableArgument()
    streams = SettableArgument()

    remote = Argument()
    local = Argument()
    split = Argument()
    download_retry = Argument()
    download_timeout = Argument()
    validate_hash = Argument()
    keep_zip = Argument()
    stream_name = Argument()
    stream_config = Argument()
    order = Argument()
    columns = Argument()
    num_epochs = Argument()
    transform = Argument()
    decode = Argument()
    max_image_bytes = Argument()
    fill_nulls = Argument()
    null_masks = Argument()
    check_ranks = Argument()
    workers = Argument()
    prefetch = Argument()
    storage_options = Argument()
    world = Argument()

    @property
    def next_epoch(self) -> int:
        """Number of the epoch that is begun next."""
        return self._mdstorm.schedule.next_epoch

    @next_epoch.setter
    def next_epoch(self, epoch: int) -> None:
        self._mdstorm.schedule.next_epoch = epoch

    @property
    def size(self) -> int:
        """The same as `num_samples`."""
        return self.num_samples

    def __len__(self) -> int:
        """Samples of this rank in one epoch."""
        return self.length

    @fact
    def length(self) -> int:
        """The same as ``len``."""
        return self._mdstorm.schedule.sampler().rows_per_epoch

    @fact
    def initial_physical_nodes(self) -> int | None:
        """Nodes with which the epoch began that a loaded state goes on with; None without one."""
        begun = self._mdstorm.schedule.epochs.begun
        return None if begun is None else begun.initial_physical_nodes

    @fact
    def epoch_seed_change(self) -> bool:
        """Whether each epoch draws other samples, if it does not have all."""
        return bool(self.shuffle and self.sampling_method == "balanced")

    @fact
    def num_samples(self) -> int:
        """Samples of all streams, each counted once."""
        return len(self._mdstorm.dataset)

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
        """The shards: their samples, and what the indexes say of them."""
        infos = [shard for part in self._mdstorm.parts for shard in part.index.shards]
        return [StoredShard(info, self._mdstorm.dataset, i) for i, info in enumerate(infos)]

    @fact
    def samples_per_shard(self) -> Counts:
        """Samples of each shard."""
        return np.array(self._mdstorm.dataset.shard_sizes, np.int64)

    @fact
    def sample_offset_per_shard(self) -> Counts:
        """Number of the first sample of each shard."""
        return np.array(self._mdstorm.dataset.bounds[:-1])

    @fact
    def samples_per_stream(self) -> Counts:
        """Samples of each stream."""
        return np.array([len(part) for part in self._mdstorm.parts], np.int64)

    @fact
    def sample_offset_per_stream(self) -> Counts:
        """Number of the first sample of each stream."""
        return _offsets(self.samples_per_stream)

    @fact
    def shards_per_stream(self) -> Counts:
        """Shards of each stream."""
        return np.array([len(part.shard_sizes) for part in self._mdstorm.parts], np.int64)

    @fact
    def shard_offset_per_stream(self) -> Counts:
        """Number of the first shard of each stream."""
        return _offsets(self.shards_per_stream)

    @fact
    def stream_per_shard(self) -> Counts:
        """Number of the stream that each shard belongs to."""
        numbers: Counts = np.repeat(np.arange(len(self._mdstorm.parts)), self.shards_per_stream)
        return numbers

    @fact
    def spanner(self) -> Spanner:
        """Finds samples: ``spanner[i]`` is the number of a sample's shard, and its row there."""
        return Spanner(self.samples_per_shard)

    @fact
    def cache_usage(self) -> int:
        """Bytes that the streams take in their cache directories on this machine.

        Shards that are read where they are take none.
        """
        return sum(map(_cached, self._mdstorm.parts))

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
        part, info = self._mdstorm_stored(shard_id)
        dataset = self._mdstorm.dataset
        dataset.shard(range(len(dataset.shard_sizes))[shard_id])
        part.files.open(info)  # of an open shard, the copy may have been evicted

    def evict_shard(self, shard_id: int) -> None:
        """Remove the copy of a shard that the cache made: it is made again when it is needed.

        A shard that is read in place stays, and so does one that is open until it is closed.

        Parameters
        ----------
        shard_id : int
            Its number.
        """
        part, info = self._mdstorm_stored(shard_id)
        part.files.discard(info)

    def _mdstorm_stored(self, shard_id: int) -> tuple[Dataset, ShardInfo]:
        """Return the stream of a shard, and what its index says of it."""
        shards = [(part, info) for part in self._mdstorm.parts for info in part.index.shards]
        return shards[shard_id]


def _offsets(counts: Counts) -> Counts:
    return np.array([0, *accumulate(counts.tolist())][:-1], np.int64)


def _cached(part: Dataset) -> int:
    if part.is_mapped or part.files.directory is None:
        return 0
    directory = CacheDirectory(part.files.directory)
    infos = part.index.shards
    files = [file for info in infos for file in (info.raw_data, info.zip_data) if file is not None]
    paths = [directory.file(name) for name in (INDEX_NAME, *(file.basename for file in files))]
    return sum(found.size for path in paths if (found := FileIdentity.at(path)) is not None)
