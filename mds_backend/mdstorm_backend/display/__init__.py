"""Human-readable output: sizes, object descriptions and progress."""

from __future__ import annotations

from mdstorm_backend.display.descriptions import Described, Description
from mdstorm_backend.display.progress_line import Progress, ProgressLine, progress
from mdstorm_backend.display.texts import counted, human_bytes, shown_url, shown_urls

__all__ = [
    "Described",
    "Description",
    "Progress",
    "ProgressLine",
    "counted",
    "human_bytes",
    "progress",
    "shown_url",
    "shown_urls",
]
