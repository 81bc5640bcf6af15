"""streaming.base.partition.relaxed: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend.mosaic.util import get_partitions_relaxed as get_partitions_relaxed

__all__ = [
    "get_partitions_relaxed",
]
