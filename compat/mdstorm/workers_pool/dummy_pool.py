"""The mirror of ``petastorm.workers_pool.dummy_pool``."""

from mdstorm._readers.open_reader import DummyPool

__all__ = ["DummyPool"]
