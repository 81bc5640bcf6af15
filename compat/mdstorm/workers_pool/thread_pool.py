"""The mirror of ``petastorm.workers_pool.thread_pool``."""

from mdstorm._readers.open_reader import ThreadPool

__all__ = ["ThreadPool"]
