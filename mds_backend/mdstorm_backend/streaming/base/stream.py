"""The mirror of ``streaming.base.stream``."""

from __future__ import annotations

from mdstorm_backend.datasets.stream import Stream

__all__ = ["Stream"]
