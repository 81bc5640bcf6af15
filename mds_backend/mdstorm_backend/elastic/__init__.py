"""MosaicML Streaming's sample order: pure functions of their arguments, on NumPy alone."""

from __future__ import annotations

from mdstorm_backend.elastic.elastic_order import ElasticOrder
from mdstorm_backend.elastic.elastic_sampler import ElasticSampler, ElasticShare
from mdstorm_backend.elastic.partitions import partition
from mdstorm_backend.elastic.sampling import StreamShape, StreamWeight
from mdstorm_backend.elastic.shuffles import shuffle

__all__ = [
    "ElasticOrder",
    "ElasticSampler",
    "ElasticShare",
    "StreamShape",
    "StreamWeight",
    "partition",
    "shuffle",
]
