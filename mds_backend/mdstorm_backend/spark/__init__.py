"""Write Spark DataFrames as MDS datasets."""

from __future__ import annotations

from mdstorm_backend.spark.materialization import checked_shard_size, materialize
from mdstorm_backend.spark.probe import why_not_writable
from mdstorm_backend.spark.session import session_conf, spark_url

__all__ = ["checked_shard_size", "materialize", "session_conf", "spark_url", "why_not_writable"]
