"""MosaicML Streaming's sample order: pure functions of their arguments, on NumPy alone."""

from __future__ import annotations

from mdstorm_backend.elastic.elastic_order import ElasticOrder
from mdstorm_backend.elastic.partition import partition
from mdstorm_backend.elastic.shuffle import shuffle
from mdstorm_backend.elastic.weights import StreamShape, StreamWeight

__all__ = ["ElasticOrder", "StreamShape", "StreamWeight", "partition", "shuffle"]
