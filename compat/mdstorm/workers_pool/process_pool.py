"""The mirror of ``petastorm.workers_pool.process_pool``."""

from __future__ import annotations

from mdstorm._readers.pools import ProcessPool

__all__ = ["ProcessPool"]
