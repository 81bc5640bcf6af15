"""Pools of workers, as arguments of `Reader`: the mirror of ``petastorm.workers_pool``."""

from __future__ import annotations

from mdstorm._absent import ABSENT

__getattr__ = ABSENT.refusing(__name__)
