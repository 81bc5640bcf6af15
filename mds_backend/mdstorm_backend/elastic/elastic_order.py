"""The ``elastic`` order: the sample ids that MosaicML Streaming gives for the same arguments.

The order is a pure function of the streams, its own arguments, the world and the epoch. An
interrupted epoch can continue in another world with the same global batches, as long as the global
batch size and the canonical nodes stay the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mdstorm_backend.elastic.batching import Schedule, schedule
from mdstorm_backend.elastic.epoch import Epoch
from mdstorm_backend.elastic.id_arrays import CHUNK, Ids, as_integer, chunks
from mdstorm_backend.elastic.order_arguments import OrderArguments
from mdstorm_backend.elastic.sampling import ShardSample, samples_per_shard
from mdstorm_backend.elastic.weights import StreamShape, StreamWeight, parse_epoch_size, weigh
from mdstorm_backend.errors import InvalidArgumentError
from mdstorm_backend.order.world import World


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
        worker: int | None = None,
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
        worker : int, optional
            Return only the batches of this worker, which takes less memory.

        Returns
        -------
        numpy.ndarray
            int64 of shape (workers, batches per worker, batch size), with one worker if one is
            asked for. -1 is padding. There are no batches if and only if the epoch is over, which
            is so on all ranks at once: the next thing to read is the next epoch.

        Raises
        ------
        InvalidArgumentError
            If there is no such worker, or the streams, the world or the state are incompatible with
            the order.
        """
        world = world.replicated(self.replication)
        plan = self._schedule(
            streams, world, epoch, sample_in_epoch, initial_physical_nodes, of_rank=True
        )
        return work_of_rank(plan, world, self.batch_size, num_workers, worker)

    def world_work(
        self,
        streams: Sequence[StreamShape],
        world: World,
        epoch: int,
        sample_in_epoch: int = 0,
        initial_physical_nodes: int | None = None,
        num_workers: int = 1,
    ) -> Ids:
        """Sample ids of all ranks; `rank_work` returns those of one.

        Returns
        -------
        numpy.ndarray
            int64 of shape (nodes, ranks per node, workers, batches per worker, batch size).
        """
        world = world.replicated(self.replication)
        plan = self._schedule(streams, world, epoch, sample_in_epoch, initial_physical_nodes)
        work = np.stack(
            [
                work_of_rank(
                    plan,
                    World(rank, world.size, world.local_size),
                    self.batch_size,
                    num_workers,
                )
                for rank in range(world.size)
            ]
        )
        of_nodes: Ids = work.reshape(world.num_nodes, world.local_size, *work.shape[1:])
        return of_nodes

    def _schedule(
        self,
        streams: Sequence[StreamShape],
        world: World,
        epoch: int,
        sample_in_epoch: int,
        initial_physical_nodes: int | None,
        *,
        of_rank: bool = False,
    ) -> Schedule:
        order = self.resolved(world.num_nodes)
        weights = order.weights(streams)
        if initial_physical_nodes is not None:
            as_integer("initial_physical_nodes", initial_physical_nodes, 1)
        return schedule(
            Epoch(
                order=order,
                streams=tuple(order._samples(streams, weights, epoch)),
                proportions=tuple(weight.proportion for weight in weights),
                num_nodes=world.num_nodes,
                ranks_per_node=world.local_size,
                epoch=as_integer("epoch", epoch, 0),
                sample_in_epoch=as_integer("sample_in_epoch", sample_in_epoch, 0),
                initial_physical_nodes=initial_physical_nodes,
                rank=world if of_rank else None,
            )
        )

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


def work_of_rank(
    plan: Schedule, world: World, batch_size: int, num_workers: int, worker: int | None = None
) -> npt.NDArray[np.int64]:
    """Compute the batches of a rank's workers in chunks, to need little other memory.

    Parameters
    ----------
    plan : Schedule
        The rest of an epoch.
    world : World
        The rank, in the world that the plan was made for.
    batch_size : int
        Samples of a batch of the rank.
    num_workers : int
        Batch i belongs to worker i modulo this.
    worker : int, optional
        The only worker to compute batches for.

    Returns
    -------
    numpy.ndarray
        int64 of shape (requested workers, batches per worker, batch size), -1 for padding.

    Raises
    ------
    InvalidArgumentError
        If there is no such worker.
    """
    workers = range(as_integer("num_workers", num_workers, 1))
    if worker is not None and worker not in workers:
        raise InvalidArgumentError(
            f"worker {worker} of {num_workers} does not exist: workers are numbered from 0"
        )
    requested = workers if worker is None else [worker]
    first, count = plan.numbers.start, len(plan.numbers)
    ids = np.empty((len(requested), -(-count // num_workers), batch_size), np.int64)
    for of_worker, number in zip(ids, requested, strict=True):
        own = len(range(number, count, num_workers))
        for part in chunks(own, CHUNK // batch_size):
            numbers = first + number + num_workers * np.arange(part.start, part.stop)
            of_worker[part] = plan.batches(numbers, world.node, world.local_rank)
        of_worker[own:] = -1
    return ids
