"""Output for people: sizes, descriptions of objects, and progress."""

from __future__ import annotations

from mdstorm_backend.display.described import (
    Described,
    Description,
    counted,
    human_bytes,
    shown_place,
)
from mdstorm_backend.display.live_progress import Progress, ThrottledLine, open_line, progress

__all__ = [
    "Described",
    "Description",
    "Progress",
    "ThrottledLine",
    "counted",
    "human_bytes",
    "open_line",
    "progress",
    "shown_place",
]
