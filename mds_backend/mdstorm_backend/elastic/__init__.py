"""The ``elastic`` order: MosaicML Streaming's sample order, computed with NumPy alone.

For the same arguments it yields the same sample ids as MosaicML Streaming, so that a training run
can move from one to the other. It is computed in the same steps as in MosaicML Streaming: how many
samples each stream and shard contributes to an epoch (`sampling`), which entries of the epoch each
rank reads (`partitions`), the shuffled ids of these entries (`shuffles`), and batches of one or
several streams (`batching`). An `ElasticOrder` holds the settings and this process's share; an
`ElasticPlan` is the `Plan` through which loaders read.
"""

from __future__ import annotations

from mdstorm_backend.elastic.elastic_order import ElasticOrder
from mdstorm_backend.elastic.elastic_plan import ElasticPlan
from mdstorm_backend.elastic.partitions import partition
from mdstorm_backend.elastic.shuffles import shuffle

__all__ = [
    "ElasticOrder",
    "ElasticPlan",
    "partition",
    "shuffle",
]
