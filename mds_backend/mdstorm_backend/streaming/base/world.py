"""The mirror of ``streaming.base.world``."""

from __future__ import annotations

from mdstorm_backend.datasets.world_of_streams import World

__all__ = ["World"]
