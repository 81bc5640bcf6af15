"""Pools of workers, as arguments of `Reader`: the mirror of ``petastorm.workers_pool``."""

from __future__ import annotations

from mdstorm._petastorm_names import other_names

__getattr__ = other_names(__name__)
