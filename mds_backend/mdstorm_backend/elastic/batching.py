"""Batching methods, which combine samples from several streams into batches.

A *global batch* is one batch from every rank. Each batching method has a class: its ``numbers`` are
the range of an epoch's remaining global batches, and ``batches(numbers)`` returns the ids in the
rank's share of some of them, with shape (numbers, batch size). `rank_work` collects all of them.
Ids number the samples of all streams in sequence; -1 is padding.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mdstorm_backend.base import cached_property
from mdstorm_backend.elastic.elastic_order import ElasticOrder, Epoch, StreamIds
from mdstorm_backend.elastic.partitions import Cells, Partition
from mdstorm_backend.elastic.sampling import CHUNK, Ids, IntArray, StreamShape, as_integer, chunks
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.order import World, ceil_div


def rank_work(
    order: ElasticOrder,
    streams: Sequence[StreamShape],
    world: World,
    epoch: int,
    sample_in_epoch: int = 0,
    initial_physical_nodes: int | None = None,
    num_workers: int = 1,
) -> Ids:
    """Return the remaining sample ids of this rank in an epoch, by worker and batch.

    Parameters
    ----------
    order : ElasticOrder
        The settings of the order.
    streams : sequence of StreamShape
        The streams, whose samples are numbered in sequence.
    world : World
        The world as launched; the order's `replication` is applied here.
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
    world = world.replicated(order.replication)
    order = order.resolved(world.num_nodes)
    weights = order.weights(streams)
    if initial_physical_nodes is not None:
        as_integer("initial_physical_nodes", initial_physical_nodes, 1)
    rest = Epoch(
        order=order,
        streams=tuple(order.samples(streams, weights, epoch)),
        proportions=tuple(weight.proportion for weight in weights),
        world=world,
        epoch=as_integer("epoch", epoch, 0),
        sample_in_epoch=as_integer("sample_in_epoch", sample_in_epoch, 0),
        initial_physical_nodes=initial_physical_nodes,
    )
    methods: dict[str, type[_Random | _PerStream | _Stratified | _DevicePerStream]] = {
        "random": _Random,
        "per_stream": _PerStream,
        "stratified": _Stratified,
        "device_per_stream": _DevicePerStream,
    }
    has_samples = any(stream.counts.any() for stream in rest.streams)
    plan = methods[order.batching_method if has_samples else "random"](rest)
    first, count = plan.numbers.start, len(plan.numbers)
    as_integer("num_workers", num_workers, 1)
    ids = np.empty((num_workers, ceil_div(count, num_workers), order.batch_size), np.int64)
    for worker, of_worker in enumerate(ids):
        own = len(range(worker, count, num_workers))
        for part in chunks(own, CHUNK // order.batch_size):  # chunks limit the temporary memory
            numbers = first + worker + num_workers * np.arange(part.start, part.stop)
            of_worker[part] = plan.batches(numbers)
        of_worker[own:] = -1
    return ids


class _Random:
    """Batches that mix samples from all streams at random."""

    def __init__(self, epoch: Epoch) -> None:
        size = sum(int(stream.counts.sum()) for stream in epoch.streams)
        self._partition = _partition(epoch, size, epoch.sample_in_epoch)
        self.numbers = range(self._partition.num_batches)
        self._epoch = epoch

    @cached_property
    def _ids(self) -> StreamIds:
        wanted = self._partition.canonical_nodes(self._epoch.world.rank)
        return self._epoch.ids(self._epoch.streams, wanted=wanted)

    def batches(self, numbers: Ids) -> Ids:
        return self._ids(self._partition.batches(numbers, self._epoch.world.rank))


class _PerStream:
    """Global batches that each hold samples from a single stream, with streams in random order."""

    def __init__(self, epoch: Epoch) -> None:
        sizes = [int(stream.counts.sum()) for stream in epoch.streams]
        self._partitions = [_partition(epoch, size, 0) for size in sizes]
        self._rank, self._batch_size = epoch.world.rank, epoch.order.batch_size
        wanted = [partition.canonical_nodes(self._rank) for partition in self._partitions]
        self._ids = _ids_per_stream(epoch, wanted)
        counts = [partition.num_full_batches for partition in self._partitions]
        _require_batches(counts, "per_stream", f"global batch of {epoch.global_batch_size}")
        self._origins, self._numbers = _interleaved(epoch, counts)
        self.numbers = range(epoch.first_batch, sum(counts))

    def batches(self, numbers: Ids) -> Ids:
        found = np.empty((len(numbers), self._batch_size), np.int64)
        origins, of_stream = self._origins[numbers], self._numbers[numbers]
        for stream, (ids, partition) in enumerate(zip(self._ids, self._partitions, strict=True)):
            here = origins == stream
            found[here] = ids(partition.batches(of_stream[here], self._rank))
        return found


class _Stratified:
    """Global batches that all have the same number of samples from each stream."""

    def __init__(self, epoch: Epoch) -> None:
        self._shares = _shares(epoch.proportions, epoch.global_batch_size)
        self._ids = _ids_per_stream(epoch, [None] * len(epoch.streams))
        self._cells = [
            Cells(ids.samples.num_samples, epoch.canonical_nodes, 1, epoch.world.local_size)
            for ids in self._ids
        ]
        counts = [
            cells.rank_entries * epoch.world.local_size // share
            for cells, share in zip(self._cells, self._shares, strict=True)
        ]
        self.numbers = range(epoch.first_batch, min(counts))
        self._rank, self._batch_size = epoch.world.rank, epoch.order.batch_size

    def batches(self, numbers: Ids) -> Ids:
        found = np.empty((len(numbers), self._batch_size), np.int64)
        # Where the stream's share of a global batch begins, relative to the rank's own batch.
        begin = -self._rank * self._batch_size
        for ids, cells, share in zip(self._ids, self._cells, self._shares, strict=True):
            columns = np.arange(max(begin, 0), min(begin + share, self._batch_size))
            if len(columns):
                positions = numbers[:, None] * share + (columns - begin)
                found[:, columns] = ids(cells.entries(0, positions))
            begin += share
        return found


class _DevicePerStream:
    """Batches of a rank that each hold one stream's samples; each node orders streams at random.

    Like MosaicML Streaming, it deals the nodes' batches to the ranks of all nodes in turn.
    Ranks can differ by one batch at the end of the epoch.
    """

    def __init__(self, epoch: Epoch) -> None:
        nodes, ranks = epoch.world.num_nodes, epoch.world.local_size
        canonical, self._batch_size = epoch.canonical_nodes, epoch.order.batch_size
        if canonical % nodes:
            raise InvalidArgumentError(
                f"batching_method='device_per_stream' needs a number of canonical nodes that is a "
                f"multiple of the {nodes} physical nodes, found num_canonical_nodes={canonical}"
            )
        self._ranks, self._per_node = ranks, canonical // nodes
        self._turn, self._node = divmod(epoch.world.rank, nodes)
        sizes = [int(stream.counts.sum()) for stream in epoch.streams]
        self._cells = [Cells(size, canonical, canonical, ranks) for size in sizes]
        node = range(self._node * self._per_node, (self._node + 1) * self._per_node)
        self._ids = _ids_per_stream(epoch, [cells.canonical(node) for cells in self._cells])
        counts = [
            cells.rank_entries * ranks * self._per_node // self._batch_size for cells in self._cells
        ]
        _require_batches(counts, "device_per_stream", f"batch of {self._batch_size}")
        self._origins, self._numbers = _interleaved(epoch, counts, self._node)
        first, rows, world = epoch.first_batch, sum(counts), epoch.world.size
        # MosaicML Streaming always appends padding. If only padding remains, the epoch is over.
        stop = (rows + world - rows % world) // ranks if first * ranks < rows else first
        self.numbers = range(first, stop)

    def batches(self, numbers: Ids) -> Ids:
        rows = numbers * self._ranks + self._turn
        found = np.full((len(numbers), self._batch_size), -1, np.int64)
        within = np.flatnonzero(rows < len(self._origins))
        streams, row_numbers = self._origins[rows[within]], self._numbers[rows[within]]
        for stream, (ids, cells) in enumerate(zip(self._ids, self._cells, strict=True)):
            here = streams == stream
            places = row_numbers[here][:, None] * self._batch_size + np.arange(self._batch_size)
            found[within[here]] = ids(self._entries(cells, places))
        return found

    def _entries(self, cells: Cells, places: Ids) -> Ids:
        """Return the node's ids at `places`: one per rank from each canonical node in turn."""
        turn, rank = np.divmod(places, self._ranks)
        index, canonical = np.divmod(turn, self._per_node)
        return cells.entries(canonical + self._node * self._per_node, index * self._ranks + rank)


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


def _ids_per_stream(epoch: Epoch, wanted: Sequence[list[int] | None]) -> list[StreamIds]:
    of_streams = zip(epoch.streams, epoch.proportions, wanted, strict=True)
    return [epoch.ids([stream], proportion, nodes) for stream, proportion, nodes in of_streams]


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
