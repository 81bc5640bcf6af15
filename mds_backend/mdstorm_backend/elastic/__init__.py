"""MosaicML Streaming's sample order: pure functions of their arguments, on NumPy alone."""

from __future__ import annotations

from mdstorm_backend.elastic.elastic_order import ElasticOrder
from mdstorm_backend.elastic.elastic_sampler import ElasticSampler, ElasticShare
from mdstorm_backend.elastic.partitions import partition
from mdstorm_backend.elastic.shuffles import shuffle
from mdstorm_backend.elastic.weights import StreamShape, StreamWeight

__all__ = [
    "ElasticOrder",
    "ElasticSampler",
    "ElasticShare",
    "StreamShape",
    "StreamWeight",
    "partition",
    "shuffle",
]
