"""Settings of waiting: the mirror of ``streaming.base.constant``."""

from __future__ import annotations

from typing import Any

from mdstorm_backend.drop_in.absent import missing

__all__ = ["DEFAULT_TIMEOUT", "TICK"]

#: Seconds that a download may wait without receiving data, unless told otherwise.
DEFAULT_TIMEOUT = 60.0

#: Seconds between two looks of what waits for a file.
TICK = 0.007


def __getattr__(name: str) -> Any:
    raise missing(__name__, name)
