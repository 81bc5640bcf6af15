"""The mirror of ``streaming.base.spanner``."""

from __future__ import annotations

from mdstorm_backend.datasets.spanner import Spanner

__all__ = ["Spanner"]
