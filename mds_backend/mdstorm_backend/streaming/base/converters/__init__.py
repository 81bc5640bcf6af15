"""The mirror of ``streaming.base.converters``."""

from __future__ import annotations

from mdstorm_backend.spark.dataframe_to_mds import dataframe_to_mds

__all__ = ["dataframe_to_mds"]
