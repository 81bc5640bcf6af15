"""streaming.base.distributed: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend.mosaic.util import all_gather_object as all_gather_object
from mdstorm_backend.mosaic.util import barrier as barrier
from mdstorm_backend.mosaic.util import get_local_rank as get_local_rank
from mdstorm_backend.mosaic.util import get_local_world_size as get_local_world_size
from mdstorm_backend.mosaic.util import get_rank as get_rank
from mdstorm_backend.mosaic.util import get_world_size as get_world_size

__all__ = [
    "all_gather_object",
    "barrier",
    "get_local_rank",
    "get_local_world_size",
    "get_rank",
    "get_world_size",
]
