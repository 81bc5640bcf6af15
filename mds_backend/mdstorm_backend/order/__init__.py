"""The ``exact`` order, and the ranks that share it."""

from __future__ import annotations

from mdstorm_backend.order.chunks import Chunk
from mdstorm_backend.order.exact import DEFAULT_SEED, ExactOrder
from mdstorm_backend.order.exact_sampler import ExactSampler
from mdstorm_backend.order.sampler import Place, Sampler
from mdstorm_backend.order.world import World, find_world, given_world

__all__ = [
    "DEFAULT_SEED",
    "Chunk",
    "ExactOrder",
    "ExactSampler",
    "Place",
    "Sampler",
    "World",
    "find_world",
    "given_world",
]
