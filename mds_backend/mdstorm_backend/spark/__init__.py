"""Write Spark DataFrames as MDS datasets."""

from __future__ import annotations

from mdstorm_backend.spark.materialization import check_driver_writes, materialize, why_not_writable
from mdstorm_backend.spark.refusals import is_refusal
from mdstorm_backend.spark.sessions import (
    is_local,
    read_conf,
    session_conf,
    spark_url,
    start_session,
)
from mdstorm_backend.write.full_shard import checked_shard_size

__all__ = [
    "check_driver_writes",
    "checked_shard_size",
    "is_local",
    "is_refusal",
    "materialize",
    "read_conf",
    "session_conf",
    "spark_url",
    "start_session",
    "why_not_writable",
]
