"""streaming.base.partition.orig: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend.mosaic.util import get_partitions_orig as get_partitions_orig

__all__ = [
    "get_partitions_orig",
]
