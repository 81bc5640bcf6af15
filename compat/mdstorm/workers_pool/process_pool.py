"""The mirror of ``petastorm.workers_pool.process_pool``."""

from mdstorm._readers.open_reader import ProcessPool

__all__ = ["ProcessPool"]
