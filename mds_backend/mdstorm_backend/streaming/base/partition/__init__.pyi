"""streaming.base.partition: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend.mosaic.sample_ids import get_partitions as get_partitions
from mdstorm_backend.streaming.base.partition import orig as orig
from mdstorm_backend.streaming.base.partition import relaxed as relaxed

__all__ = [
    "get_partitions",
]
