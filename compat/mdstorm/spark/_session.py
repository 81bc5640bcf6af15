"""What a conversion asks of its Spark session."""

from __future__ import annotations

import sys
import uuid
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from mdstorm.errors import NotADataFrameError, NotOnDriverError, UnsupportedArgumentError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["check_driver", "directory_name", "session_of"]


def check_driver() -> None:
    """Raise NotOnDriverError inside a Spark task."""
    if "pyspark" not in sys.modules:
        return
    from pyspark import TaskContext

    if TaskContext.get() is not None:
        raise NotOnDriverError(
            "make_spark_converter should not be invoked from executor side: convert on the driver "
            "and send the converter to the tasks, it pickles"
        )


def session_of(df: Any) -> SparkSession:
    """Return the session of a DataFrame, classic or Connect.

    Raises
    ------
    UnsupportedArgumentError
        If `df` is a path.
    NotADataFrameError
        If it is anything else.
    """
    if isinstance(df, str):
        raise UnsupportedArgumentError(
            f"make_spark_converter({df!r}): a path instead of a DataFrame is not supported in this "
            "version. Read it first: make_spark_converter(spark.read.parquet(path))"
        )
    if not hasattr(df, "sparkSession") or not hasattr(df, "mapInArrow"):
        raise NotADataFrameError(
            f"{type(df).__name__!r} object has no attribute '_jdf': make_spark_converter needs a "
            "Spark DataFrame. Make one with spark.createDataFrame(…)"
        )
    return cast("SparkSession", df.sparkSession)


def directory_name(session: SparkSession) -> str:
    """Name for a new copy in Petastorm's pattern: time, application, unique id."""
    application = session.conf.get("spark.app.id", None) or "unknown"
    return f"{datetime.now():%Y%m%d%H%M%S}-appid-{application}-{uuid.uuid4()}"
