"""The ``exact`` order, and the ranks that share it."""

from __future__ import annotations

from mdstorm_backend.order.exact import DEFAULT_SEED, ExactOrder
from mdstorm_backend.order.world import World, find_world

__all__ = ["DEFAULT_SEED", "ExactOrder", "World", "find_world"]
