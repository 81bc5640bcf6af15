"""streaming.base.stream: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend import Stream as Stream
from mdstorm_backend import streams_registry as streams_registry

__all__ = [
    "Stream",
    "streams_registry",
]
