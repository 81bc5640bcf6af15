"""The mirror of ``streaming.base.format.mds``."""

from __future__ import annotations

from mdstorm_backend.drop_in.absent import ABSENT
from mdstorm_backend.write.mds_writer import MDSWriter

__all__ = ["MDSWriter"]

__getattr__ = ABSENT.refusing(__name__)
