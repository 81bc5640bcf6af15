"""How many samples an epoch has of each shard: the mirror of ``streaming.base.sampling``."""

from __future__ import annotations

from mdstorm_backend.elastic.sampling import samples_per_shard as get_sampling

__all__ = ["get_sampling"]
