"""The mirror of ``streaming.base.array``."""

from __future__ import annotations

from mdstorm_backend.datasets.sample_access import Array

__all__ = ["Array"]
