"""Batching methods, which combine samples from several streams into batches.

A *global batch* is one batch from every rank. Each batching method is a function that returns the
numbers of an epoch's remaining global batches, and how to get the ids in the rank's share of some
of them, with shape (numbers, batch size). `rank_work` collects all of them. Ids number the samples
of all streams in sequence; -1 is padding.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import TypeAlias

import numpy as np

from mdstorm_backend.base import warn_user
from mdstorm_backend.elastic import sampling
from mdstorm_backend.elastic.elastic_settings import ElasticSettings
from mdstorm_backend.elastic.partitions import Cells, Partition
from mdstorm_backend.elastic.sampling import (
    CHUNK,
    Ids,
    IntArray,
    ShardSample,
    as_integer,
    chunks,
)
from mdstorm_backend.elastic.shuffles import permutation
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.order import World, ceil_div

#: The numbers of an epoch's remaining global batches, and the rank's ids in some of them.
_Batches: TypeAlias = tuple[range, Callable[[Ids], Ids]]


@dataclass(frozen=True)
class Epoch:
    """Everything that determines one rank's sample ids in an epoch.

    Attributes
    ----------
    order : ElasticSettings
        The order, with canonical nodes and block size resolved.
    streams : tuple of ShardSample
        The part of the epoch that each stream contributes.
    world : World
        The rank, and the nodes and ranks among which the epoch is divided.
    epoch : int
        Number of the epoch.
    sample_in_epoch : int
        Samples in the epoch that the whole world has already read.
    initial_physical_nodes : int or None
        The number of nodes at the start of the epoch.
    """

    order: ElasticSettings
    streams: tuple[ShardSample, ...]
    world: World
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
        """Number of samples in a global batch, which has one batch from every rank."""
        return self.world.size * self.order.batch_size

    @property
    def first_batch(self) -> int:
        """First global batch that was not read completely; some batching methods resume there."""
        first, rest = divmod(self.sample_in_epoch, self.global_batch_size)
        if rest:
            warn_user(
                f"{self.sample_in_epoch} samples are not a multiple of the global batch size "
                f"{self.global_batch_size}: with batching_method={self.order.batching_method!r} "
                f"the last {rest} samples are read again"
            )
        return first

    def ids(
        self,
        streams: Sequence[ShardSample],
        proportion: float = 1,
        wanted: list[int] | None = None,
    ) -> Callable[[Ids], Ids]:
        """Draw and shuffle samples from some streams; return a map from entries to sample ids.

        The entries are those of a partition; -1 (padding) stays -1. The shuffle block size is
        multiplied by `proportion`. If `wanted` lists canonical nodes, only their entries can be
        looked up.
        """
        order = self.order
        assert order.shuffle_block_size is not None, "resolved() has not been called"
        balanced = order.sampling_method == "balanced"
        units, sample_ids = sampling.resample(
            streams, order.shuffle_seed + (self.epoch if balanced else 0)
        )
        if not order.shuffle:
            return partial(_looked_up, sample_ids)
        nodes, total = self.canonical_nodes, int(units.sum())
        if order.shuffle_algo == "naive" or (wanted is not None and len(wanted) == nodes):
            wanted = None
        left_out: Ids | None = None
        if wanted is not None:
            bounds = total * np.arange(nodes + 1) // nodes
            left_out = np.cumsum(np.where(np.isin(np.arange(nodes), wanted), 0, np.diff(bounds)))
        ids = permutation(
            order.shuffle_algo,
            units,
            nodes,
            order.shuffle_seed,
            self.epoch,
            int(order.shuffle_block_size * proportion),
            wanted,
        )

        def shuffled(entries: Ids) -> IntArray:
            if left_out is not None:
                entries = entries - left_out[((entries + 1) * nodes - 1) // total]
            return sample_ids(ids[entries])

        return partial(_looked_up, shuffled)


def _looked_up(sample_ids: Callable[[Ids], IntArray], entries: Ids) -> Ids:
    """Return the sample ids of a partition's entries, in any shape; -1 (padding) stays -1."""
    padding = entries < 0
    if not padding.any():
        return sample_ids(entries).astype(np.int64, copy=False)
    found = np.full(entries.shape, -1, np.int64)
    found[~padding] = sample_ids(entries[~padding])
    return found


def rank_work(
    order: ElasticSettings,
    epoch: int,
    sample_in_epoch: int = 0,
    initial_physical_nodes: int | None = None,
    num_workers: int = 1,
) -> Ids:
    """Return the remaining sample ids of this rank in an epoch, by worker and batch.

    Parameters
    ----------
    order : ElasticSettings
        The order, with this process's world and at least one stream.
    epoch : int
        Number of the epoch, starting at 0.
    sample_in_epoch : int
        Samples in the epoch that the whole world has already read.
    initial_physical_nodes : int, optional
        The number of nodes at the start of the epoch.
    num_workers : int
        Batch i belongs to worker i modulo this.

    Returns
    -------
    numpy.ndarray
        int64 of shape (workers, batches per worker, batch size). -1 is padding. There are no
        batches if and only if the epoch is over, which is the case on all ranks at the same time.

    Raises
    ------
    InvalidArgumentError
        If the streams, the world or the state are incompatible with the order.
    """
    rest = _rest(order, epoch, sample_in_epoch, initial_physical_nodes)
    methods: dict[str, Callable[[Epoch], _Batches]] = {
        "random": _random,
        "per_stream": _per_stream,
        "stratified": _stratified,
        "device_per_stream": _device_per_stream,
    }
    has_samples = any(stream.counts.any() for stream in rest.streams)
    remaining, batches = methods[order.batching_method if has_samples else "random"](rest)
    first, count = remaining.start, len(remaining)
    as_integer("num_workers", num_workers, 1)
    ids = np.empty((num_workers, ceil_div(count, num_workers), order.batch_size), np.int64)
    for worker, of_worker in enumerate(ids):
        own = len(range(worker, count, num_workers))
        for part in chunks(own, CHUNK // order.batch_size):  # chunks limit the temporary memory
            numbers = first + worker + num_workers * np.arange(part.start, part.stop)
            of_worker[part] = batches(numbers)
        of_worker[own:] = -1
    return ids


def stored_order(
    order: ElasticSettings,
    epoch: int,
    sample_in_epoch: int = 0,
    initial_physical_nodes: int | None = None,
    num_workers: int = 1,
) -> range | None:
    """Return what `rank_work` would, without padding, if it is one range; otherwise None.

    A range takes no memory and no time: for a dataset of a billion rows, the array has 8 GB.
    """
    is_divided = order.world.replicated(order.replication).size * num_workers != 1
    if order.shuffle or order.batching_method != "random" or is_divided:
        return None
    rest = _rest(order, epoch, sample_in_epoch, initial_physical_nodes)
    is_whole = all(np.array_equal(stream.sizes, stream.counts) for stream in rest.streams)
    if rest.canonical_nodes != 1 or not is_whole:
        return None
    size = sum(int(stream.counts.sum()) for stream in rest.streams)
    _partition(rest, size, rest.sample_in_epoch)  # raises if the epoch ends before
    return range(rest.sample_in_epoch, size)


def _rest(
    order: ElasticSettings, epoch: int, sample_in_epoch: int, initial_physical_nodes: int | None
) -> Epoch:
    world = order.world.replicated(order.replication)
    order = order.resolved(world.num_nodes)
    if initial_physical_nodes is not None:
        as_integer("initial_physical_nodes", initial_physical_nodes, 1)
    return Epoch(
        order=order,
        streams=tuple(order.samples(epoch)),
        world=world,
        epoch=as_integer("epoch", epoch, 0),
        sample_in_epoch=as_integer("sample_in_epoch", sample_in_epoch, 0),
        initial_physical_nodes=initial_physical_nodes,
    )


def samples_of_ranks(
    order: ElasticSettings, sample_in_epoch: int, initial_physical_nodes: int
) -> list[int]:
    """Return how many samples each rank has left in an epoch, or [] if the numbers are equal.

    They differ where ``relaxed`` deals the samples to the ranks with which the epoch began, and
    other ranks divide the last global batch again. The parameters are as in `rank_work`.

    Raises
    ------
    InvalidArgumentError
        If this world cannot read the epoch.
    """
    world = order.world.replicated(order.replication)
    canonical = order.canonical_nodes_for(world.num_nodes)
    few, many = sorted((canonical, world.num_nodes))
    if many % few == 0 or order.batching_method != "random":
        return []
    partition = Partition(
        order.partition_algo,
        order.num_samples,
        canonical,
        world.num_nodes,
        world.local_size,
        order.batch_size,
        sample_in_epoch,
        initial_physical_nodes,
    )
    return [partition.num_samples(rank) for rank in range(world.size)]


def _random(epoch: Epoch) -> _Batches:
    """Mix samples from all streams at random."""
    size, rank = sum(int(stream.counts.sum()) for stream in epoch.streams), epoch.world.rank
    partition = _partition(epoch, size, epoch.sample_in_epoch)

    @cache
    def ids() -> Callable[[Ids], Ids]:
        return epoch.ids(epoch.streams, wanted=partition.canonical_nodes(rank))

    return range(partition.num_batches), lambda numbers: ids()(partition.batches(numbers, rank))


def _per_stream(epoch: Epoch) -> _Batches:
    """Fill each global batch from a single stream, with streams in random order."""
    sizes = [int(stream.counts.sum()) for stream in epoch.streams]
    partitions = [_partition(epoch, size, 0) for size in sizes]
    rank, batch_size = epoch.world.rank, epoch.order.batch_size
    of_streams = _ids_per_stream(epoch, [one.canonical_nodes(rank) for one in partitions])
    counts = [partition.num_full_batches for partition in partitions]
    _require_batches(counts, "per_stream", f"global batch of {epoch.global_batch_size}")
    origins, numbers_of = _interleaved(epoch, counts)

    def batches(numbers: Ids) -> Ids:
        found = np.empty((len(numbers), batch_size), np.int64)
        streams, of_stream = origins[numbers], numbers_of[numbers]
        for stream, (ids, partition) in enumerate(zip(of_streams, partitions, strict=True)):
            here = streams == stream
            found[here] = ids(partition.batches(of_stream[here], rank))
        return found

    return range(epoch.first_batch, sum(counts)), batches


def _stratified(epoch: Epoch) -> _Batches:
    """Give all global batches the same number of samples from each stream."""
    proportions = [stream.proportion for stream in epoch.streams]
    shares, ranks = _shares(proportions, epoch.global_batch_size), epoch.world.local_size
    rank, batch_size = epoch.world.rank, epoch.order.batch_size
    of_streams = _ids_per_stream(epoch, [None] * len(epoch.streams))
    sizes = [int(stream.counts.sum()) for stream in epoch.streams]
    of_cells = [Cells(size, epoch.canonical_nodes, 1, ranks) for size in sizes]
    counts = [
        cells.rank_entries * ranks // share for cells, share in zip(of_cells, shares, strict=True)
    ]

    def batches(numbers: Ids) -> Ids:
        samples = np.empty((len(numbers), batch_size), np.int64)
        # Where the stream's share of a global batch begins, relative to the rank's own batch.
        begin = -rank * batch_size
        for ids, cells, share in zip(of_streams, of_cells, shares, strict=True):
            columns = np.arange(max(begin, 0), min(begin + share, batch_size))
            if len(columns):
                positions = numbers[:, None] * share + (columns - begin)
                samples[:, columns] = ids(cells.entries(0, positions))
            begin += share
        return samples

    return range(epoch.first_batch, min(counts)), batches


def _device_per_stream(epoch: Epoch) -> _Batches:
    """Fill each rank's batch from a single stream; each node orders streams at random.

    Like MosaicML Streaming, it deals the nodes' batches to the ranks of all nodes in turn.
    Ranks can differ by one batch at the end of the epoch.
    """
    nodes, ranks = epoch.world.num_nodes, epoch.world.local_size
    num_canonical, batch_size = epoch.canonical_nodes, epoch.order.batch_size
    if num_canonical % nodes:
        raise InvalidArgumentError(
            f"batching_method='device_per_stream' needs a number of canonical nodes that is a "
            f"multiple of the {nodes} physical nodes, found num_canonical_nodes={num_canonical}"
        )
    per_node = num_canonical // nodes
    own_turn, node = divmod(epoch.world.rank, nodes)
    sizes = [int(stream.counts.sum()) for stream in epoch.streams]
    of_cells = [Cells(size, num_canonical, num_canonical, ranks) for size in sizes]
    of_node = range(node * per_node, (node + 1) * per_node)
    of_streams = _ids_per_stream(epoch, [cells.canonical(of_node) for cells in of_cells])
    counts = [cells.rank_entries * ranks * per_node // batch_size for cells in of_cells]
    _require_batches(counts, "device_per_stream", f"batch of {batch_size}")
    origins, numbers_of = _interleaved(epoch, counts, node)
    first, total, size = epoch.first_batch, sum(counts), epoch.world.size
    # MosaicML Streaming always appends padding. If only padding remains, the epoch is over.
    stop = (total + size - total % size) // ranks if first * ranks < total else first

    def entries(cells: Cells, places: Ids) -> Ids:
        """Return the node's ids at `places`: one per rank from each canonical node in turn."""
        turn, rank = np.divmod(places, ranks)
        index, canonical = np.divmod(turn, per_node)
        return cells.entries(canonical + node * per_node, index * ranks + rank)

    def batches(numbers: Ids) -> Ids:
        rows = numbers * ranks + own_turn
        sample_ids = np.full((len(numbers), batch_size), -1, np.int64)
        within = np.flatnonzero(rows < total)
        streams, row_numbers = origins[rows[within]], numbers_of[rows[within]]
        for stream, (ids, cells) in enumerate(zip(of_streams, of_cells, strict=True)):
            here = streams == stream
            places = row_numbers[here][:, None] * batch_size + np.arange(batch_size)
            sample_ids[within[here]] = ids(entries(cells, places))
        return sample_ids

    return range(first, stop), batches


def _partition(epoch: Epoch, num_samples: int, drop_first: int) -> Partition:
    return Partition(
        epoch.order.partition_algo,
        num_samples,
        epoch.canonical_nodes,
        epoch.world.num_nodes,
        epoch.world.local_size,
        epoch.order.batch_size,
        drop_first,
        epoch.initial_physical_nodes,
    )


def _ids_per_stream(epoch: Epoch, wanted: Sequence[list[int] | None]) -> list[Callable[[Ids], Ids]]:
    of_streams = zip(epoch.streams, wanted, strict=True)
    return [epoch.ids([stream], stream.proportion, nodes) for stream, nodes in of_streams]


def _shares(proportions: Sequence[float], global_batch_size: int) -> list[int]:
    """Divide a global batch among the streams by the largest-remainder method."""
    exact = np.array([proportion * global_batch_size for proportion in proportions])
    shares = exact.astype(np.int64)
    missing = global_batch_size - int(shares.sum())
    shares[np.flip(np.argsort(exact - shares))[:missing]] += 1
    if shares.min() < 1:
        raise InvalidArgumentError(
            f"stream {int(shares.argmin())} has no sample in a global batch of "
            f"{global_batch_size}: its proportion is {proportions[int(shares.argmin())]:.3g}. "
            "Use larger batches or other weights, or batching_method='random'"
        )
    return [int(share) for share in shares]


def _require_batches(counts: list[int], method: str, batch: str) -> None:
    if min(counts, default=0) < 1:
        raise InvalidArgumentError(
            f"stream {counts.index(0)} has too few samples for one {batch} samples, which "
            f"batching_method={method!r} needs: use smaller batches, larger weights or another "
            "batching_method"
        )


def _interleaved(epoch: Epoch, counts: list[int], node: int = 0) -> tuple[IntArray, IntArray]:
    """Put the streams' batches in random order.

    Returns
    -------
    origins, numbers : numpy.ndarray
        The stream of each batch, and its number among that stream's batches.
    """
    order = epoch.order
    vary = order.shuffle and order.sampling_method == "balanced"
    rng = np.random.default_rng(order.shuffle_seed + (epoch.epoch if vary else 0))
    for _ in range(node + 1):  # one generator draws for all nodes up to this one
        origins = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        rng.shuffle(origins)
    numbers = np.empty(len(origins), np.int64)
    for stream, count in enumerate(counts):
        numbers[origins == stream] = np.arange(count)
    return origins, numbers
