"""streaming.base.world: written by scripts/make_streaming_stubs.py."""

from mdstorm_backend.datasets.world_of_streams import World as World

__all__ = [
    "World",
]
