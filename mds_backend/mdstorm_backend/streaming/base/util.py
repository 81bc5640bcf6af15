"""The mirror of ``streaming.base.util``."""

from __future__ import annotations

from mdstorm_backend.write.merge import merge_index

__all__ = ["merge_index"]
