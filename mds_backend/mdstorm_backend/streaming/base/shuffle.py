"""Permutations of sample ids: the mirror of ``streaming.base.shuffle``."""

from __future__ import annotations

from mdstorm_backend.elastic import shuffle as get_shuffle

__all__ = ["get_shuffle"]
