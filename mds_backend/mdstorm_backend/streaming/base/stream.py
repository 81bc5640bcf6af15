"""The mirror of ``streaming.base.stream``."""

from __future__ import annotations

from mdstorm_backend.datasets.stream import Stream
from mdstorm_backend.datasets.stream_registry import streams_registry

__all__ = ["Stream", "streams_registry"]
