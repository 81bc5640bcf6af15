"""`ElasticOrder`: the ``elastic`` order, which is MosaicML Streaming's.

The order is a pure function of the streams, its settings, the world and the epoch, and yields the
same sample ids as MosaicML Streaming. Samples are divided among *canonical nodes*, whose number
stays the same when the world changes. Therefore an interrupted epoch can continue in a different
world with the same global batches, as long as the global batch size also stays the same.
"""

from __future__ import annotations

from dataclasses import dataclass

from mdstorm_backend.base.checks import suggests_fields
from mdstorm_backend.elastic.elastic_plan import ElasticPlan
from mdstorm_backend.elastic.elastic_settings import ElasticSettings
from mdstorm_backend.elastic.sampling import Ids
from mdstorm_backend.order import Batching, Position


@suggests_fields
@dataclass(frozen=True)
class ElasticOrder(ElasticSettings):
    """The settings of the order, and which part of its samples this process reads.

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
    world : World
        The world as launched.
    streams : tuple of StreamShape
        The streams of the dataset with their weights; empty until the dataset is opened.
    states_batch_size : bool
        Whether the user specified the batch size; otherwise the loader's is used.
    follows_world : bool or None
        Whether a pass replaces `world` with the world in which it begins: see `share_of`. None, the
        default, means yes for a `StreamingDataset` unless `world` has several ranks, and no for
        everything else.
    cache : EpochCache
        Computes the next epoch while an epoch is being read. Shared by all plans of the order.

    Notes
    -----
    All ranks have the same number of batches, all full except the last, with two exceptions, as
    with MosaicML Streaming: with ``relaxed`` on a number of nodes that is incompatible with the
    canonical nodes, a rank may have no samples in the last global batch, and with
    ``device_per_stream``, ranks may differ by one batch.

    A different world continues with the same global batches under ``random`` and ``stratified``.
    Under ``per_stream`` it does if every stream fills the same number of global batches in both
    worlds; the samples repeated to give all ranks equal numbers can fill one more. Under
    ``device_per_stream``, batches depend on the number of ranks.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
        If an argument has an invalid value.
    """

    name = "elastic"
    spans_epochs = False
    late_settings = ("num_canonical_nodes", "shuffle_block_size", "shuffle_seed")
    reads_foreign = True
    counts_peeks = True

    def plan(self, batching: Batching, bounds: Ids, start: Position, url: str) -> ElasticPlan:
        """Return a plan up to the end of an epoch; it numbers samples in any case."""
        return ElasticPlan(self, url, batching=batching, start=start)
