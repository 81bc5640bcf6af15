"""The mirror of ``streaming.base.format``."""

from __future__ import annotations

from mdstorm_backend.drop_in.absent import ABSENT
from mdstorm_backend.streaming.base.format.index import get_index_basename
from mdstorm_backend.streaming.base.format.mds import MDSWriter

__all__ = ["MDSWriter", "get_index_basename"]

__getattr__ = ABSENT.refusing(__name__)
