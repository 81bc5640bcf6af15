"""`Stream`: one of several datasets that are read together, and the `World` passed to it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from mdstorm_backend import order
from mdstorm_backend.base.checks import overrides
from mdstorm_backend.datasets.stream_files import INHERITED, StreamFiles, check_download
from mdstorm_backend.elastic.sampling import weigh
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.format.index import ShardInfo
from mdstorm_backend.order import StreamShape

if TYPE_CHECKING:
    from typing_extensions import Self

#: Methods for shards and files that subclasses may override.
_HOOKS = ("get_shards", "prepare_shard", "_download_file")


class _Setting:
    """A stream's argument; if unset, the value comes from the dataset that opened the stream."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, stream: Any, owner: type | None = None) -> Any:
        return self if stream is None else stream._mdstorm.shown(self._name)

    def __set__(self, stream: Any, value: Any) -> None:
        stream._mdstorm.set(self._name, value)


class Stream:
    """One of the datasets that are read together: its location and its share of an epoch.

    A stream can be used in any number of datasets, even at the same time.

    Subclasses may override `get_shards`, `prepare_shard` and `_download_file`, which are called as
    in MosaicML Streaming: when a dataset is created, and when a shard is not in `local`.

    Parameters
    ----------
    remote : str, optional
        URL or path of the dataset. When a dataset is created from the stream, at least one of
        `remote` and `local` must be set.
    local : str, optional
        Local directory: the dataset itself or, with `remote`, the directory in which its shards are
        cached.
    split : str, optional
        Sub-directory of `remote` and `local` to use.
    proportion : float, optional
        The stream's share of an epoch, relative to the other streams.
    repeat : float, optional
        How often the stream's samples appear in an epoch.
    choose : int, optional
        How many of the stream's samples an epoch contains. Pass at most one of `proportion`,
        `repeat` and `choose`; by default, every sample is read once.
    download_retry : int, optional
        Number of download attempts.
    download_timeout : float, optional
        Seconds that a download may wait without receiving data.
    validate_hash : str, optional
        Hash used to verify shards; the index must record it.
    keep_zip : bool, optional
        Whether to keep compressed files next to the decompressed shards.

    Attributes
    ----------
    remote, local, split, download_retry, download_timeout, validate_hash, keep_zip
        The values passed, or the values of the dataset that was last created from the stream. They
        can be set, and then apply to datasets created afterwards. If `local` was not passed, it is
        the directory where the shards are, or will be, on this machine.
    proportion, repeat, choose
        The values passed, by default None. After a `StreamingDataset` is created, the stream's
        share of its epochs, expressed in each of the three ways.

    Raises
    ------
    InvalidArgumentError
        If more than one of the weights is passed, or a value is invalid.
    """

    remote = _Setting()
    split = _Setting()
    proportion = _Setting()
    repeat = _Setting()
    choose = _Setting()
    download_retry = _Setting()
    download_timeout = _Setting()
    validate_hash = _Setting()
    keep_zip = _Setting()

    def __init__(
        self,
        *,
        remote: str | None = None,
        local: str | None = None,
        split: str | None = None,
        proportion: float | None = None,
        repeat: float | None = None,
        choose: int | None = None,
        download_retry: int | None = None,
        download_timeout: float | None = None,
        validate_hash: str | None = None,
        keep_zip: bool | None = None,
    ) -> None:
        StreamShape((), proportion, repeat, choose)
        check_download(download_retry, download_timeout)
        self.remote = None if remote is None else os.fspath(remote)
        self._mdstorm.set("local", None if local is None else os.fspath(local))
        self.split = split
        self.proportion, self.repeat, self.choose = proportion, repeat, choose
        self.download_retry = download_retry
        self.download_timeout = download_timeout
        self.validate_hash = validate_hash
        self.keep_zip = keep_zip

    def __repr__(self) -> str:
        local = self._mdstorm.own("local")
        return f"Stream(remote={self.remote!r}, local={local!r}, split={self.split!r})"

    @property
    def _mdstorm(self) -> StreamFiles:
        """The stream's state, created on first use because a subclass may skip the constructor."""
        found: StreamFiles | None = self.__dict__.get("_mdstorm")
        if found is None:
            found = self.__dict__["_mdstorm"] = StreamFiles(
                [name for name in _HOOKS if overrides(self, Stream, name)]
            )
        return found

    @property
    def local(self) -> str | None:
        """Local directory of the shards, which may not exist yet; None if unknown."""
        return self._mdstorm.local()

    @local.setter
    def local(self, path: str | None) -> None:
        self._mdstorm.set("local", path)

    @property
    def safe_keep_zip(self) -> bool:
        """Whether to keep compressed files; always True if they are the dataset itself."""
        return bool(self.keep_zip) or self.remote in (None, self.local)

    def apply_default(self, default: dict[str, Any]) -> None:
        """Take unset values from a dataset; called when a dataset opens the stream.

        Raises
        ------
        InvalidArgumentError
            If the stream has neither `remote` nor `local`.
        """
        if not (self.remote or self._mdstorm.own("local")):
            raise InvalidArgumentError(
                "`remote` and/or `local` path must be provided: a stream needs the URL or path of "
                "the dataset, or the local directory of its shards, or both"
            )
        self._mdstorm.applied = {name: default.get(name) for name in INHERITED}

    @classmethod
    def validate_weights(cls, streams: Sequence[Self]) -> tuple[bool, bool]:
        """Return whether streams are weighted by proportion, and whether none has a weight.

        Raises
        ------
        InvalidArgumentError
            If only some of the streams are weighted by proportion; also a ValueError.
        """
        kinds = {stream._mdstorm.shape(0).weighting for stream in streams}
        if len(kinds) > 1:
            weigh([stream._mdstorm.shape(1) for stream in streams], None, 0)
        return "proportion" in kinds, kinds == {None}

    @classmethod
    def apply_weights(
        cls,
        streams: Sequence[Self],
        samples_per_stream: Sequence[int],
        choose_per_epoch: int | None,
        seed: int,
    ) -> int:
        """Set `proportion`, `repeat` and `choose` of the streams, and return the epoch size.

        Parameters
        ----------
        streams : sequence of Stream
            All streams of a dataset.
        samples_per_stream : sequence of int
            Number of samples in each stream.
        choose_per_epoch : int or None
            Number of samples in an epoch, unless the streams determine it.
        seed : int
            Decides which streams get the samples that are left over after rounding.

        Raises
        ------
        InvalidArgumentError
            If the weights cannot be combined; also a ValueError.
        """
        pairs = zip(streams, samples_per_stream, strict=True)
        shapes = [stream._mdstorm.shape(int(samples)) for stream, samples in pairs]
        weights = weigh(shapes, choose_per_epoch, seed)
        for stream, weight in zip(streams, weights, strict=True):
            stream._mdstorm.derive(weight)
        return sum(weight.choose for weight in weights)

    def get_shards(self, world: World, allow_unsafe_types: bool) -> list[ShardInfo]:
        """Return the shards of the stream, in the order in which samples are numbered.

        An override may omit shards, reorder them, or find them in a different way.

        Parameters
        ----------
        world : World
            The position of this process among those that train together.
        allow_unsafe_types : bool
            Whether values may be unpickled.

        Raises
        ------
        DatasetNotFoundError
            If there is no index.
        """
        return self._mdstorm.shards(self._download_file)

    def prepare_shard(self, shard: ShardInfo) -> int:
        """Copy a shard to `local`; called before a missing shard is read.

        Returns
        -------
        int
            Bytes added to `local`.
        """
        return self._mdstorm.prepare(shard, self._download_file, self.safe_keep_zip)

    def _download_file(self, from_basename: str, to_basename: str | None = None) -> str:
        """Download a file to `local` and return its path there.

        Parameters
        ----------
        from_basename : str
            Name under `remote` and `split`.
        to_basename : str, optional
            Name under `local` and `split`, if different.
        """
        return self._mdstorm.download(from_basename, to_basename or from_basename)


class World:
    """The position of this process, or of one of its workers, among all nodes, ranks and workers.

    Ranks are numbered node by node and workers rank by rank. Counts are for the whole world, except
    those whose names end in ``_per_node`` or ``_per_rank``.

    Parameters
    ----------
    num_nodes : int
        Number of nodes.
    ranks_per_node : int
        Number of ranks on each node.
    workers_per_rank : int
        Number of workers of each rank; 1 also means reading without workers.
    worker : int
        Number of this worker in the world.

    Attributes
    ----------
    node, rank, rank_of_node, worker_of_node, worker_of_rank : int
        The position of this worker.
    num_ranks, num_workers, workers_per_node : int
        Counts derived from the parameters.
    is_multinode, is_leader, is_local_leader : bool
        Whether there are several nodes; whether this worker is the first one in the world, or on
        its node.
    """

    def __init__(
        self, num_nodes: int, ranks_per_node: int, workers_per_rank: int, worker: int
    ) -> None:
        self.num_nodes = num_nodes
        self.ranks_per_node = ranks_per_node
        self.workers_per_rank = workers_per_rank
        self.worker = worker

        self.workers_per_node = ranks_per_node * workers_per_rank
        self.num_ranks = num_nodes * ranks_per_node
        self.num_workers = num_nodes * self.workers_per_node

        self.node, self.worker_of_node = divmod(worker, self.workers_per_node)
        self.rank, self.worker_of_rank = divmod(worker, workers_per_rank)
        self.rank_of_node = self.rank % ranks_per_node

        self.is_multinode = num_nodes > 1
        self.is_leader = worker == 0
        self.is_local_leader = self.worker_of_node == 0

    @classmethod
    def detect(cls) -> World:
        """Return the position of this process; in a PyTorch worker, the position of the worker."""
        ranks = order.find_world()
        number, count = _worker_info()
        return cls(ranks.num_nodes, ranks.local_size, count, ranks.rank * count + number)

    def to_json(self) -> dict[str, Any]:
        """Return all attributes by name."""
        return dict(vars(self))

    def copy(self) -> World:
        """Return a copy of this world."""
        return World(self.num_nodes, self.ranks_per_node, self.workers_per_rank, self.worker)

    def replicate(self, replication: int) -> World:
        """Return the world in which every `replication` consecutive ranks count as one.

        Raises
        ------
        InvalidArgumentError
            If `replication` is less than 1 or does not divide the ranks; also a ValueError.
        """
        ranks = order.World(self.rank, self.num_ranks, self.ranks_per_node).replicated(replication)
        worker = ranks.rank * self.workers_per_rank + self.worker_of_rank
        return World(ranks.num_nodes, ranks.local_size, self.workers_per_rank, worker)

    def detect_workers(self) -> World:
        """Return a world with the same rank and newly detected workers."""
        number, count = _worker_info()
        return World(self.num_nodes, self.ranks_per_node, count, self.rank * count + number)


def _worker_info() -> tuple[int, int]:
    """Return this PyTorch worker's number and the number of workers; (0, 1) outside of workers."""
    torch = sys.modules.get("torch")
    info = None if torch is None else torch.utils.data.get_worker_info()
    return (0, 1) if info is None else (info.id, info.num_workers)
