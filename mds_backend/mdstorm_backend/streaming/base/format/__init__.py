"""The mirror of ``streaming.base.format``."""

from __future__ import annotations

from typing import Any

from mdstorm_backend.drop_in.absent import missing
from mdstorm_backend.streaming.base.format.index import get_index_basename
from mdstorm_backend.streaming.base.format.mds import MDSWriter

__all__ = ["MDSWriter", "get_index_basename"]


def __getattr__(name: str) -> Any:
    raise missing(__name__, name)
