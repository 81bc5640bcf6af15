"""Settings of waiting: the mirror of ``streaming.base.constant``."""

from __future__ import annotations

from mdstorm_backend.drop_in.absent import ABSENT

__all__ = ["DEFAULT_TIMEOUT", "TICK"]

#: Seconds that a download may wait without receiving data, unless told otherwise.
DEFAULT_TIMEOUT = 60.0

#: Seconds between two looks of what waits for a file.
TICK = 0.007

__getattr__ = ABSENT.refusing(__name__)
