"""The mirror of ``petastorm.workers_pool.process_pool``."""

from __future__ import annotations

from mdstorm._readers.open_reader import ProcessPool

__all__ = ["ProcessPool"]
