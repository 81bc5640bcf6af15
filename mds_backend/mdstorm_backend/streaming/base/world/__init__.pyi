"""streaming.base.world: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend.datasets.stream import World as World

__all__ = [
    "World",
]
