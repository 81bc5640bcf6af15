"""Sample ids of nodes, ranks and workers: the mirror of ``streaming.base.partition``."""

from __future__ import annotations

from mdstorm_backend.elastic import partition as get_partitions

__all__ = ["get_partitions"]
