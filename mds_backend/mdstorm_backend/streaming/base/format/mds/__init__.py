"""The mirror of ``streaming.base.format.mds``."""

from __future__ import annotations

from typing import Any

from mdstorm_backend.drop_in.absent import missing
from mdstorm_backend.write.mds_writer import MDSWriter

__all__ = ["MDSWriter"]


def __getattr__(name: str) -> Any:
    raise missing(__name__, name)
