"""The mirror of ``petastorm.workers_pool.dummy_pool``."""

from __future__ import annotations

from mdstorm._readers.pools import DummyPool

__all__ = ["DummyPool"]
