"""Pools of workers, as arguments of `Reader`: the mirror of ``petastorm.workers_pool``."""

from mdstorm._petastorm_names import other_names

__getattr__ = other_names(__name__)
