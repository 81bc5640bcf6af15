"""streaming.base.constant: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend.mosaic.util import DEFAULT_TIMEOUT as DEFAULT_TIMEOUT

__all__ = [
    "DEFAULT_TIMEOUT",
]
