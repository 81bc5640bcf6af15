"""Check the Spark session of a conversion."""

from __future__ import annotations

import sys
import uuid
from datetime import datetime
from typing import TYPE_CHECKING, Any, cast

from mdstorm.errors import DatasetNotFoundError, NotADataFrameError, NotOnDriverError
from mdstorm_backend.spark import read_conf, start_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def check_driver() -> None:
    """Raise NotOnDriverError inside a Spark task."""
    if "pyspark" not in sys.modules:
        return
    from pyspark import TaskContext

    if TaskContext.get() is not None:
        raise NotOnDriverError(
            "make_spark_converter should not be invoked from executor side: convert on the "
            "driver, and send the converter to the tasks"
        )


def session_of(df: Any) -> SparkSession:
    """Return the session of a DataFrame, classic or Connect; for a name that of the process.

    Raises
    ------
    NotADataFrameError
        If `df` is anything else, or a stream.
    MissingDependencyError
        If a session has to be started, and pyspark or Java is not installed.
    """
    if isinstance(df, str):
        return start_session()
    if not hasattr(type(df), "sparkSession") or not hasattr(type(df), "mapInArrow"):
        raise NotADataFrameError(
            f"{type(df).__name__!r} object has no attribute '_jdf': make_spark_converter needs a "
            "Spark DataFrame, or the path of data. Create one with spark.createDataFrame(…)"
        )
    if df.isStreaming:
        raise NotADataFrameError(
            "the DataFrame is a stream, which never ends: write it to a table by writeStream, and "
            "convert the table"
        )
    return cast("SparkSession", df.sparkSession)


def named_table(session: SparkSession, name: str) -> DataFrame:
    """Return the table of a catalog as a frame.

    Raises
    ------
    DatasetNotFoundError
        If the session finds none of that name.
    """
    from pyspark.errors import AnalysisException

    try:
        frame = session.table(name)
        _ = frame.schema  # Spark Connect looks for the table when it has to
    except AnalysisException as error:
        raise DatasetNotFoundError(
            f"Spark finds no table {name!r} ({str(error).splitlines()[0]}). Check the name, and "
            "whether this session may read it; the path of a directory needs a slash",
            url=name,
        ) from error
    return frame


def directory_name(session: SparkSession) -> str:
    """Name for a new copy in Petastorm's pattern: time, application, unique id."""
    application = read_conf(session, "spark.app.id") or "unknown"
    return f"{datetime.now():%Y%m%d%H%M%S}-appid-{application}-{uuid.uuid4()}"
