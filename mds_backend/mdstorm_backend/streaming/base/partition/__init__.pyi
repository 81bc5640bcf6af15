"""streaming.base.partition: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend.mosaic.util import get_partitions as get_partitions
from mdstorm_backend.mosaic.util import get_partitions_orig as get_partitions_orig
from mdstorm_backend.mosaic.util import get_partitions_relaxed as get_partitions_relaxed
from mdstorm_backend.streaming.base.partition import orig as orig
from mdstorm_backend.streaming.base.partition import relaxed as relaxed

__all__ = [
    "get_partitions",
    "get_partitions_orig",
    "get_partitions_relaxed",
]
