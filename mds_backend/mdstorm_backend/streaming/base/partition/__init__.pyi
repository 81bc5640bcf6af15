"""streaming.base.partition: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend.mosaic.sample_ids import get_partitions as get_partitions

__all__ = [
    "get_partitions",
]
