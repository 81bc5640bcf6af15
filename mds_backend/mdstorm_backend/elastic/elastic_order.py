"""The ``elastic`` order: the sample ids that MosaicML Streaming gives for the same arguments.

The order is a pure function of the streams, its own arguments, the world and the epoch. An
interrupted epoch can continue in another world with the same global batches, as long as the global
batch size and the canonical nodes stay the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from mdstorm_backend.base.checks import suggests_fields
from mdstorm_backend.elastic.batching import schedule
from mdstorm_backend.elastic.epoch import Epoch, OrderArguments
from mdstorm_backend.elastic.sampling import (
    CHUNK,
    Ids,
    ShardSample,
    as_integer,
    chunks,
    samples_per_shard,
)
from mdstorm_backend.elastic.weights import StreamShape, StreamWeight, parse_epoch_size, weigh
from mdstorm_backend.order.world import World


@suggests_fields
@dataclass(frozen=True)
class ElasticOrder(OrderArguments):
    """Everything that determines the sample ids of an epoch, except the streams and the world.

    Attributes
    ----------
    batch_size : int
        Samples per batch of one rank.
    shuffle : bool
        Whether samples are shuffled.
    shuffle_algo : {"py1e", "py1br", "py1s", "py2s", "naive"}
        See `mdstorm_backend.elastic.shuffle`.
    shuffle_seed : int
        Seed of everything random.
    shuffle_block_size : int, optional
        Approximate number of samples that are shuffled together. None means 4,000,000 divided by
        the canonical nodes, but at least 262,144.
    partition_algo : {"relaxed", "orig"}
        See `mdstorm_backend.elastic.partition`.
    num_canonical_nodes : int, optional
        Number of parts into which the samples are divided, each read by one node. None means the
        number of nodes in the first epoch, times 64 for ``py1s`` and ``py2s``. If it does not
        divide the epoch, some samples come twice, and an epoch is longer than `num_samples`.
    batching_method : {"random", "stratified", "per_stream", "device_per_stream"}
        Whether a batch mixes streams at random, in fixed proportions, not at all, or not at all
        within one rank.
    sampling_method : {"balanced", "fixed"}
        Whether each epoch draws different samples, if an epoch does not use all of them.
    sampling_granularity : int
        How many samples are drawn from a shard at a time.
    epoch_size : int or str, optional
        Samples of an epoch over the whole world, also as ``"10k"`` or ``"1.5m"``; kept as int.
    replication : int, optional
        Number of consecutive ranks that get the same samples.

    Notes
    -----
    All ranks have the same number of batches, all full except the last. Their numbers of samples
    differ in two cases, as with MosaicML Streaming: with ``relaxed`` on a number of nodes that is
    incompatible with the canonical ones (only in the last global batch), and with
    ``device_per_stream`` (by one batch).

    Another world continues with the same global batches under ``random`` and ``stratified``. Under
    ``per_stream`` it does if every stream fills as many global batches in either world; what is
    repeated to give all ranks equally many samples can fill one more. Under ``device_per_stream``
    the batches are made for the devices that there are.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
        If an argument has an invalid value.
    """

    def weights(self, streams: Sequence[StreamShape]) -> tuple[StreamWeight, ...]:
        """Each stream's part of an epoch: see `mdstorm_backend.elastic.weights.weigh`."""
        return weigh(streams, parse_epoch_size(self.epoch_size), self.shuffle_seed)

    def num_samples(self, streams: Sequence[StreamShape]) -> int:
        """Samples of an epoch over the whole world, without repetitions."""
        return sum(weight.choose for weight in self.weights(streams))

    def rank_work(
        self,
        streams: Sequence[StreamShape],
        world: World,
        epoch: int,
        sample_in_epoch: int = 0,
        initial_physical_nodes: int | None = None,
        num_workers: int = 1,
    ) -> Ids:
        """Sample ids of this rank, worker by worker and batch by batch.

        Parameters
        ----------
        streams : sequence of StreamShape
            Sample ids count through all of them.
        world : World
            As launched; `replication` is applied to it here.
        epoch : int
            Number of the epoch, from 0.
        sample_in_epoch : int
            Samples of the epoch that the whole world has already seen. After all of them nothing is
            left.
        initial_physical_nodes : int, optional
            The number of nodes with which the epoch began.
        num_workers : int
            Batch i belongs to worker i modulo this.

        Returns
        -------
        numpy.ndarray
            int64 of shape (workers, batches per worker, batch size). -1 is padding. There are no
            batches if and only if the epoch is over, which is so on all ranks at once: the next
            thing to read is the next epoch.

        Raises
        ------
        InvalidArgumentError
            If the streams, the world or the state are incompatible with the order.
        """
        world = world.replicated(self.replication)
        order = self.resolved(world.num_nodes)
        weights = order.weights(streams)
        if initial_physical_nodes is not None:
            as_integer("initial_physical_nodes", initial_physical_nodes, 1)
        plan = schedule(
            Epoch(
                order=order,
                streams=tuple(order._samples(streams, weights, epoch)),
                proportions=tuple(weight.proportion for weight in weights),
                world=world,
                epoch=as_integer("epoch", epoch, 0),
                sample_in_epoch=as_integer("sample_in_epoch", sample_in_epoch, 0),
                initial_physical_nodes=initial_physical_nodes,
            )
        )
        first, count = plan.numbers.start, len(plan.numbers)
        as_integer("num_workers", num_workers, 1)
        ids = np.empty((num_workers, -(-count // num_workers), self.batch_size), np.int64)
        for worker, of_worker in enumerate(ids):
            own = len(range(worker, count, num_workers))
            for part in chunks(own, CHUNK // self.batch_size):  # to need little other memory
                numbers = first + worker + num_workers * np.arange(part.start, part.stop)
                of_worker[part] = plan.batches(numbers)
            of_worker[own:] = -1
        return ids

    def _samples(
        self, streams: Sequence[StreamShape], weights: Sequence[StreamWeight], epoch: int
    ) -> Iterable[ShardSample]:
        anew = self.shuffle and self.sampling_method == "balanced"
        first_id = 0
        for stream, weight in zip(streams, weights, strict=True):
            sizes = np.array(stream.shard_sizes, np.int64)
            counts = samples_per_shard(
                sizes, weight.choose, self.sampling_granularity, self.shuffle_seed, epoch, anew
            )
            yield ShardSample(first_id, sizes, counts)
            first_id += stream.num_samples
