"""The mirror of ``petastorm.workers_pool.thread_pool``."""

from __future__ import annotations

from mdstorm._readers.open_reader import ThreadPool

__all__ = ["ThreadPool"]
