"""How the samples of several streams are put together in batches.

Every method is a `Schedule`: it knows how many global batches the epoch has, and computes the ids
of any of them for any rank. Ids are of samples in all streams one after another; -1 is padding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from mdstorm_backend.elastic.arrays import IntArray
from mdstorm_backend.elastic.partitions import Cells, Partition
from mdstorm_backend.elastic.sampling import Resampling, ShardSample, resample
from mdstorm_backend.elastic.shuffles import permutation
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.user_warnings import warn_user

if TYPE_CHECKING:
    from mdstorm_backend.elastic.elastic_order import ElasticOrder

__all__ = ["BATCHING_METHODS", "Epoch", "Schedule", "schedule"]

#: Names of the batching methods.
BATCHING_METHODS = ("random", "stratified", "per_stream", "device_per_stream")

Ids = npt.NDArray[np.int64]


class Schedule(Protocol):
    """The global batches of what is left of an epoch."""

    @property
    def numbers(self) -> range:
        """Numbers of the global batches that are left."""
        ...

    def batches(self, numbers: Ids, node: int, rank_of_node: int) -> Ids:
        """Ids of one rank's share of global batches, of shape (numbers, batch size)."""
        ...


@dataclass(frozen=True)
class Epoch:
    """What decides the ids of an epoch.

    Attributes
    ----------
    order : ElasticOrder
        With canonical nodes and block size resolved.
    streams : tuple of ShardSample
        What each stream gives.
    proportions : tuple of float
        Each stream's part of the epoch.
    num_nodes, ranks_per_node : int
        P and R.
    epoch : int
        Number of the epoch.
    sample_in_epoch : int
        Samples that the whole world has seen.
    initial_physical_nodes : int or None
        The number of nodes with which the epoch began.
    """

    order: ElasticOrder
    streams: tuple[ShardSample, ...]
    proportions: tuple[float, ...]
    num_nodes: int
    ranks_per_node: int
    epoch: int
    sample_in_epoch: int
    initial_physical_nodes: int | None

    @property
    def canonical_nodes(self) -> int:
        """Number of canonical nodes."""
        assert self.order.num_canonical_nodes is not None, "resolved() has not been called"
        return self.order.num_canonical_nodes

    @property
    def global_batch_size(self) -> int:
        """Samples of a batch of all ranks."""
        return self.num_nodes * self.ranks_per_node * self.order.batch_size

    @property
    def first_batch(self) -> int:
        """First global batch that was not seen whole, for methods that resume at batches."""
        first, rest = divmod(self.sample_in_epoch, self.global_batch_size)
        if rest:
            warn_user(
                f"{self.sample_in_epoch} samples are no whole number of global batches of "
                f"{self.global_batch_size}: with batching_method={self.order.batching_method!r} "
                f"the last {rest} of them are read again"
            )
        return first

    def ids(self, streams: Sequence[ShardSample], proportion: float = 1) -> _StreamIds:
        """Draw and shuffle the samples of streams, in blocks of their part of the block size."""
        order = self.order
        assert order.shuffle_block_size is not None, "resolved() has not been called"
        balanced = order.sampling_method == "balanced"
        samples = resample(streams, order.shuffle_seed + (self.epoch if balanced else 0))
        if not order.shuffle:
            return _StreamIds(samples, None)
        block = int(order.shuffle_block_size * proportion)
        return _StreamIds(
            samples,
            permutation(
                order.shuffle_algo,
                samples.units,
                self.canonical_nodes,
                order.shuffle_seed,
                self.epoch,
                block,
            ),
        )

    def origins_generator(self) -> np.random.Generator:
        """Return the generator that decides of which stream a batch is."""
        order = self.order
        anew = order.shuffle and order.sampling_method == "balanced"
        return np.random.default_rng(order.shuffle_seed + (self.epoch if anew else 0))


@dataclass(frozen=True)
class _StreamIds:
    """Map from the entries of a partition to sample ids."""

    samples: Resampling
    order: IntArray | None

    @property
    def num_samples(self) -> int:
        return self.samples.num_samples

    def __call__(self, entries: Ids) -> Ids:
        ids = entries if self.order is None else self.order[entries]
        table, first = self.samples.ids, self.samples.first_id
        found = (ids + first if table is None else table[ids]).astype(np.int64, copy=False)
        padding = entries < 0
        if padding.any():
            found[padding] = -1
        return found


def schedule(epoch: Epoch) -> Schedule:
    """Plan what is left of an epoch by the batching method of its order.

    Raises
    ------
    InvalidArgumentError
        If the streams or the world do not go together with the method.
    """
    methods: dict[str, type[_Random | _PerStream | _Stratified | _DevicePerStream]] = {
        "random": _Random,
        "per_stream": _PerStream,
        "stratified": _Stratified,
        "device_per_stream": _DevicePerStream,
    }
    return methods[epoch.order.batching_method](epoch)


class _Random:
    """Batches of samples of all streams as they come."""

    def __init__(self, epoch: Epoch) -> None:
        size = sum(int(stream.counts.sum()) for stream in epoch.streams)
        self._partition = _partition(epoch, size, epoch.sample_in_epoch)
        self.numbers = range(self._partition.num_batches)
        self._epoch = epoch

    @cached_property
    def _ids(self) -> _StreamIds:
        return self._epoch.ids(self._epoch.streams)

    def batches(self, numbers: Ids, node: int, rank_of_node: int) -> Ids:
        return self._ids(self._partition.batches(numbers, node, rank_of_node))


class _PerStream:
    """Global batches of one stream each, in a random order of streams."""

    def __init__(self, epoch: Epoch) -> None:
        self._ids = _ids_per_stream(epoch)
        self._partitions = [_partition(epoch, ids.num_samples, 0) for ids in self._ids]
        counts = [partition.num_full_batches for partition in self._partitions]
        _require_batches(counts, "per_stream", f"global batch of {epoch.global_batch_size}")
        self._origins, self._numbers = _interleave(counts, epoch.origins_generator())
        self.numbers = range(epoch.first_batch, sum(counts))
        self._batch_size = epoch.order.batch_size

    def batches(self, numbers: Ids, node: int, rank_of_node: int) -> Ids:
        found = np.empty((len(numbers), self._batch_size), np.int64)
        origins, of_stream = self._origins[numbers], self._numbers[numbers]
        for stream, (ids, partition) in enumerate(zip(self._ids, self._partitions, strict=True)):
            here = origins == stream
            found[here] = ids(partition.batches(of_stream[here], node, rank_of_node))
        return found


class _Stratified:
    """Global batches in which every stream has the same share of samples each time."""

    def __init__(self, epoch: Epoch) -> None:
        self._shares = _shares(epoch.proportions, epoch.global_batch_size)
        self._ids = _ids_per_stream(epoch)
        self._cells = [
            Cells(ids.num_samples, epoch.canonical_nodes, 1, epoch.ranks_per_node)
            for ids in self._ids
        ]
        counts = [
            cells.rank_entries * epoch.ranks_per_node // share
            for cells, share in zip(self._cells, self._shares, strict=True)
        ]
        self.numbers = range(epoch.first_batch, min(counts))
        self._ranks_per_node, self._batch_size = epoch.ranks_per_node, epoch.order.batch_size

    def batches(self, numbers: Ids, node: int, rank_of_node: int) -> Ids:
        found = np.empty((len(numbers), self._batch_size), np.int64)
        first = (node * self._ranks_per_node + rank_of_node) * self._batch_size
        begin = -first  # of the stream's share, seen from the rank's part of the global batch
        for ids, cells, share in zip(self._ids, self._cells, self._shares, strict=True):
            columns = np.arange(max(begin, 0), min(begin + share, self._batch_size))
            if len(columns):
                positions = numbers[:, None] * share + (columns - begin)
                found[:, columns] = ids(cells.entries(0, positions))
            begin += share
        return found


class _DevicePerStream:
    """Batches of one stream each on every rank, in a random order of streams per node.

    MosaicML Streaming deals the batches of its nodes to the ranks of all nodes in turn. Ranks can
    differ by a batch at the end of the epoch.
    """

    def __init__(self, epoch: Epoch) -> None:
        nodes, ranks = epoch.num_nodes, epoch.ranks_per_node
        canonical, self._batch_size = epoch.canonical_nodes, epoch.order.batch_size
        if canonical % nodes:
            raise InvalidArgumentError(
                f"batching_method='device_per_stream' needs a number of canonical nodes that is a "
                f"multiple of the {nodes} physical nodes, found num_canonical_nodes={canonical}"
            )
        self._nodes, self._ranks, self._per_node = nodes, ranks, canonical // nodes
        self._ids = _ids_per_stream(epoch)
        self._cells = [Cells(ids.num_samples, canonical, canonical, ranks) for ids in self._ids]
        self._counts = [
            cells.rank_entries * ranks * self._per_node // self._batch_size for cells in self._cells
        ]
        _require_batches(self._counts, "device_per_stream", f"batch of {self._batch_size}")
        self._epoch = epoch
        first, rows, world = epoch.first_batch, sum(self._counts), nodes * ranks
        # Mosaic always appends padding; where nothing else is left, the epoch is over.
        stop = (rows + world - rows % world) // ranks if first * ranks < rows else first
        self.numbers = range(first, stop)

    def batches(self, numbers: Ids, node: int, rank_of_node: int) -> Ids:
        rank = node * self._ranks + rank_of_node
        turn, node = divmod(rank, self._nodes)
        rows = numbers * self._ranks + turn
        origins, of_stream = self._interleaved(node)
        found = np.full((len(numbers), self._batch_size), -1, np.int64)
        within = np.flatnonzero(rows < len(origins))
        streams, row_numbers = origins[rows[within]], of_stream[rows[within]]
        for stream, (ids, cells) in enumerate(zip(self._ids, self._cells, strict=True)):
            here = streams == stream
            places = row_numbers[here][:, None] * self._batch_size + np.arange(self._batch_size)
            found[within[here]] = ids(self._entries(cells, node, places))
        return found

    def _entries(self, cells: Cells, node: int, places: Ids) -> Ids:
        """Sample ids of a node: its canonical nodes take turns, each with one sample per rank."""
        turn, rank = np.divmod(places, self._ranks)
        index, canonical = np.divmod(turn, self._per_node)
        return cells.entries(canonical + node * self._per_node, index * self._ranks + rank)

    def _interleaved(self, node: int) -> tuple[IntArray, IntArray]:
        if node not in self._rows:
            rng = self._epoch.origins_generator()
            for _ in range(node + 1):  # one generator serves all nodes
                origins = _origins(self._counts, rng)
            self._rows[node] = origins, _count_up(origins, len(self._counts))
        return self._rows[node]

    @cached_property
    def _rows(self) -> dict[int, tuple[IntArray, IntArray]]:
        return {}


def _partition(epoch: Epoch, num_samples: int, drop_first: int) -> Partition:
    return Partition(
        epoch.order.partition_algo,
        num_samples,
        epoch.canonical_nodes,
        epoch.num_nodes,
        epoch.ranks_per_node,
        epoch.order.batch_size,
        drop_first,
        epoch.initial_physical_nodes,
    )


def _ids_per_stream(epoch: Epoch) -> list[_StreamIds]:
    pairs = zip(epoch.streams, epoch.proportions, strict=True)
    return [epoch.ids([stream], proportion) for stream, proportion in pairs]


def _shares(proportions: Sequence[float], global_batch_size: int) -> list[int]:
    """Samples of each stream in a global batch: rounded down, then by the largest remainder."""
    exact = np.array([proportion * global_batch_size for proportion in proportions])
    shares = exact.astype(np.int64)
    missing = global_batch_size - int(shares.sum())
    shares[np.flip(np.argsort(exact - shares))[:missing]] += 1
    if shares.min() < 1:
        raise InvalidArgumentError(
            f"stream {int(shares.argmin())} has no sample in a global batch of "
            f"{global_batch_size}, its proportion being {proportions[int(shares.argmin())]:.3g}: "
            "use larger batches or other weights, or batching_method='random'"
        )
    return [int(share) for share in shares]


def _require_batches(counts: list[int], method: str, batch: str) -> None:
    if min(counts, default=0) < 1:
        raise InvalidArgumentError(
            f"stream {counts.index(0)} has too few samples for one {batch} samples, which "
            f"batching_method={method!r} needs: use smaller batches, larger weights or another "
            "batching_method"
        )


def _interleave(counts: list[int], rng: np.random.Generator) -> tuple[IntArray, IntArray]:
    origins = _origins(counts, rng)
    return origins, _count_up(origins, len(counts))


def _origins(counts: list[int], rng: np.random.Generator) -> IntArray:
    """Stream of each batch, shuffled."""
    origins = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    rng.shuffle(origins)
    return origins


def _count_up(origins: IntArray, streams: int) -> IntArray:
    """Number of each batch among those of its stream."""
    numbers = np.empty(len(origins), np.int64)
    for stream in range(streams):
        here = origins == stream
        numbers[here] = np.arange(np.count_nonzero(here))
    return numbers
