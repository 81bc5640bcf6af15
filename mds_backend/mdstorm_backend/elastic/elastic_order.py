"""`ElasticOrder`: the settings of the ``elastic`` order. `Epoch`: one epoch in that order.

The order is a pure function of the streams, its settings, the world and the epoch, and yields the
same sample ids as MosaicML Streaming. Samples are divided among *canonical nodes*, whose number
stays the same when the world changes. Therefore an interrupted epoch can continue in a different
world with the same global batches, as long as the global batch size also stays the same.

`Epoch` brings together everything that determines the ids in one epoch; `batching` turns it into a
rank's batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from mdstorm_backend.base.checks import check_flag, check_one_of, suggests_fields, warn_user
from mdstorm_backend.elastic import sampling
from mdstorm_backend.elastic.partitions import PARTITION_ALGORITHMS
from mdstorm_backend.elastic.sampling import Ids, IntArray, ShardSample, StreamShape
from mdstorm_backend.elastic.shuffles import SHUFFLE_ALGORITHMS, block_range, permutation
from mdstorm_backend.order import DEFAULT_SEED, World

#: Names of the batching methods.
BATCHING_METHODS = ("random", "stratified", "per_stream", "device_per_stream")

#: Names of the sampling methods.
SAMPLING_METHODS = ("balanced", "fixed")

_REQUIRED = ("batch_size", "shuffle_seed", "sampling_granularity")
_CHOICES = {
    "shuffle_algo": SHUFFLE_ALGORITHMS,
    "partition_algo": PARTITION_ALGORITHMS,
    "batching_method": BATCHING_METHODS,
    "sampling_method": SAMPLING_METHODS,
}


@suggests_fields
@dataclass(frozen=True)
class ElasticOrder:
    """Everything that determines the sample ids of an epoch, except the streams and the world.

    Attributes
    ----------
    batch_size : int
        Samples per batch on each rank.
    shuffle : bool
        Whether samples are shuffled.
    shuffle_algo : {"py1e", "py1br", "py1s", "py2s", "naive"}
        See `mdstorm_backend.elastic.shuffle`.
    shuffle_seed : int
        Seed for all random choices.
    shuffle_block_size : int, optional
        Approximate number of samples that are shuffled together. None means 4,000,000 divided by
        the canonical nodes, but at least 262,144.
    partition_algo : {"relaxed", "orig"}
        See `mdstorm_backend.elastic.partition`.
    num_canonical_nodes : int, optional
        Number of parts into which the samples are divided, each read by one node. None means the
        number of nodes in the first epoch, times 64 for ``py1s`` and ``py2s``. If the epoch size
        is not divisible by it, some samples are repeated, and epochs are longer than `num_samples`.
    batching_method : {"random", "stratified", "per_stream", "device_per_stream"}
        Whether a batch mixes streams at random, in fixed proportions, not at all, or not at all
        within one rank.
    sampling_method : {"balanced", "fixed"}
        Whether each epoch draws different samples (``balanced``) or the same ones, if an epoch
        does not use all of them.
    sampling_granularity : int
        How many samples are drawn from a shard at a time.
    epoch_size : int or str, optional
        Samples in an epoch over the whole world, also as ``"10k"`` or ``"1.5m"``; stored as int.
    replication : int, optional
        Number of consecutive ranks that get the same samples.

    Notes
    -----
    All ranks have the same number of batches, all full except the last. Their numbers of samples
    differ in two cases, as with MosaicML Streaming: with ``relaxed`` on a number of nodes that
    is incompatible with the canonical nodes (only in the last global batch), and with
    ``device_per_stream`` (by one batch).

    A different world continues with the same global batches under ``random`` and ``stratified``.
    Under ``per_stream`` it does if every stream fills the same number of global batches in both
    worlds; the samples repeated to give all ranks equal numbers can fill one more. Under
    ``device_per_stream``, batches depend on the number of ranks.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
        If an argument has an invalid value.
    """

    batch_size: int
    shuffle: bool = False
    shuffle_algo: str = "py1e"
    shuffle_seed: int = DEFAULT_SEED
    shuffle_block_size: int | None = None
    partition_algo: str = "relaxed"
    num_canonical_nodes: int | None = None
    batching_method: str = "random"
    sampling_method: str = "balanced"
    sampling_granularity: int = 1
    epoch_size: int | str | None = None
    replication: int | None = None

    def __post_init__(self) -> None:
        check_flag("shuffle", self.shuffle)
        for name, least in (
            ("batch_size", 1),
            ("shuffle_seed", 0),
            ("shuffle_block_size", 1),
            ("num_canonical_nodes", 1),
            ("sampling_granularity", 1),
            ("replication", 1),
        ):
            value = getattr(self, name)
            if value is not None or name in _REQUIRED:
                object.__setattr__(self, name, sampling.as_integer(name, value, least))
        object.__setattr__(self, "epoch_size", sampling.parse_epoch_size(self.epoch_size))
        for name, choices in _CHOICES.items():
            check_one_of(name, getattr(self, name), choices)
        if self.shuffle and self.shuffle_block_size is not None:
            block_range(self.shuffle_algo, self.shuffle_block_size)

    def resolved(self, num_nodes: int) -> ElasticOrder:
        """Return the same order with defaults filled in for canonical nodes and block size.

        Parameters
        ----------
        num_nodes : int
            Number of nodes in the (replicated) world in which the first epoch begins.
        """
        canonical = self.canonical_nodes_for(num_nodes)
        block = self.shuffle_block_size or max(4_000_000 // canonical, 1 << 18)
        return replace(self, num_canonical_nodes=canonical, shuffle_block_size=block)

    def canonical_nodes_for(self, num_nodes: int) -> int:
        """Return the number of canonical nodes if the first epoch begins on `num_nodes` nodes."""
        per_node = 64 if self.shuffle_algo in ("py1s", "py2s") else 1
        return self.num_canonical_nodes or num_nodes * per_node

    def weights(self, streams: Sequence[StreamShape]) -> tuple[sampling.StreamWeight, ...]:
        """Return each stream's part of an epoch: see `mdstorm_backend.elastic.sampling.weigh`."""
        size = sampling.parse_epoch_size(self.epoch_size)
        return sampling.weigh(streams, size, self.shuffle_seed)

    def num_samples(self, streams: Sequence[StreamShape]) -> int:
        """Return the number of samples in an epoch over all ranks, not counting padding."""
        return sum(weight.choose for weight in self.weights(streams))

    def samples(
        self, streams: Sequence[StreamShape], weights: Sequence[sampling.StreamWeight], epoch: int
    ) -> Iterator[ShardSample]:
        """Yield how many samples each shard contributes to an epoch, stream by stream."""
        vary = self.shuffle and self.sampling_method == "balanced"
        first_id = 0
        for stream, weight in zip(streams, weights, strict=True):
            sizes = np.array(stream.shard_sizes, np.int64)
            counts = sampling.samples_per_shard(
                sizes, weight.choose, self.sampling_granularity, self.shuffle_seed, epoch, vary
            )
            yield ShardSample(first_id, sizes, counts)
            first_id += stream.num_samples


@dataclass(frozen=True)
class Epoch:
    """Everything that determines one rank's sample ids in an epoch.

    Attributes
    ----------
    order : ElasticOrder
        The order, with canonical nodes and block size resolved.
    streams : tuple of ShardSample
        The part of the epoch that each stream contributes.
    proportions : tuple of float
        Each stream's fraction of the epoch.
    world : World
        The rank, and the nodes and ranks among which the epoch is divided.
    epoch : int
        Number of the epoch.
    sample_in_epoch : int
        Samples in the epoch that the whole world has already read.
    initial_physical_nodes : int or None
        The number of nodes at the start of the epoch.
    """

    order: ElasticOrder
    streams: tuple[ShardSample, ...]
    proportions: tuple[float, ...]
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
