"""streaming.base.sampling: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend.mosaic.util import get_sampling as get_sampling

__all__ = [
    "get_sampling",
]
