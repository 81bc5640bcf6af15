"""Spark sessions: startup, configuration, Arrow batches and URLs.

Serverless compute refuses to read or change configuration values that are not on a short list, even
if a default is given. Like shared compute, it also refuses access to the JVM and to RDDs.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from mdstorm_backend.base.optional import require
from mdstorm_backend.errors import ArgumentTypeError, MissingDependencyError
from mdstorm_backend.format.schema import Schema
from mdstorm_backend.spark.refusals import is_refusal, short_reason

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Paths of volumes and DBFS, and the URLs that Spark uses for them.
_MOUNTS = {"file:///Volumes/": "dbfs:/Volumes/", "file:///dbfs/": "dbfs:/"}

_logger = logging.getLogger(__name__)

#: Limits the rows of Arrow batches. A batch whose buffers exceed 2 GiB kills the job, so columns of
#: unbounded size need fewer rows. Spark 4 can limit bytes too, but not in all releases.
_BATCH_CONF = "spark.sql.execution.arrow.maxRecordsPerBatch"

_setting = threading.RLock()


def check_dataframe(df: object) -> None:
    """Raise ArgumentTypeError unless `df` is a Spark DataFrame."""
    if not hasattr(df, "sparkSession"):
        raise ArgumentTypeError(
            f"the data to write must be a Spark DataFrame, found {type(df).__name__}: make one "
            "with spark.createDataFrame(…), or write without Spark using MDSWriter.write_batch"
        )


def read_conf(session: Any, key: str) -> str | None:
    """Return a configuration value; None if it is not set, or if the session refuses to read it.

    Parameters
    ----------
    session : pyspark.sql.SparkSession or None
        A classic or a Spark Connect session. None, and a mock in a test, have no values.
    key : str
        The name of the value.
    """
    conf = getattr(session, "conf", None)
    if conf is None:
        return None
    try:
        value = conf.get(key, None)
    except Exception as error:
        _check_refused(error, key)
        return None
    return value if isinstance(value, str) else None


@contextmanager
def session_conf(session: Any, values: Mapping[str, str]) -> Iterator[frozenset[str]]:
    """Set configuration values for a block, as far as the session allows, then restore them.

    Yields
    ------
    frozenset of str
        The keys that the session refuses to set.
    """
    refused = set()
    with ExitStack() as stack:
        for key, value in values.items():
            try:
                was = session.conf.get(key, None)
                session.conf.set(key, value)
            except Exception as error:
                _check_refused(error, key)
                refused.add(key)
            else:
                stack.callback(_restore, session.conf, key, was)
        yield frozenset(refused)


def _restore(conf: Any, key: str, was: str | None) -> None:
    """Restore a value; a failure is only logged, so that it does not hide a job's error."""
    try:
        if was is None:
            conf.unset(key)
        else:
            conf.set(key, was)
    except Exception as error:  # a session may be gone; each kind has its own errors
        _logger.warning(
            "the conf %s could not be restored to %r (%s)", key, was, short_reason(error)
        )


def _check_refused(error: Exception, key: str) -> None:
    """Log the error if the session refuses access to a value; raise any other error."""
    if not is_refusal(error):
        raise error
    _logger.debug("this session refuses the conf %s", key, exc_info=error)


def is_local(session: Any) -> bool:
    """Whether Spark is local, so that executors share this machine's disk; False if unknown."""
    # A Spark Connect server may have its own machine, working directory and mounts, unless PySpark
    # has started it in this process.
    is_connect = type(session).__module__.startswith("pyspark.sql.connect.")
    if is_connect and "SPARK_LOCAL_REMOTE" not in os.environ:
        return False
    return (read_conf(session, "spark.master") or "").lower().startswith("local")


def spark_url(url: str) -> str:
    """Return a normalised URL in the form that Spark uses."""
    for mount, spelling in _MOUNTS.items():
        if url.startswith(mount):
            return spelling + url[len(mount) :]
    return url


def start_session(builder: Any = None) -> SparkSession:
    """Return this process's session, or start one.

    Parameters
    ----------
    builder : pyspark.sql.SparkSession.Builder, optional
        Settings of a new session; by default Spark's own.

    Raises
    ------
    MissingDependencyError
        If pyspark or Java is not installed, or Java is too old for this Spark.
    """
    require("pyspark")
    from pyspark.sql import SparkSession

    try:
        return (SparkSession.builder if builder is None else builder).getOrCreate()
    except Exception as error:
        if "DatabricksSession" in str(error):  # databricks-connect has its own sessions
            sessions = import_module("databricks.connect").DatabricksSession
            return cast("SparkSession", sessions.builder.getOrCreate())
        if "JAVA_GATEWAY_EXITED" not in str(error):
            raise
        raise MissingDependencyError(
            "Spark could not start Java: its own message is above. Spark 4 needs Java 17 or newer, "
            "Spark 3.5 Java 8, 11 or 17. Install Java 17 (such as apt-get install "
            "openjdk-17-jre-headless, brew install openjdk@17, or conda install openjdk=17) and, "
            "if it is not on the PATH, set JAVA_HOME to its directory"
        ) from error


@contextmanager
def sized_arrow_batches(session: SparkSession, schema: Schema) -> Iterator[None]:
    """Limit the rows of Arrow batches while a DataFrame of `schema` is written.

    The column that allows the fewest rows decides. Executors join small batches again, so a small
    number costs only a few microseconds a row.

    A smaller limit that the user has set is kept. The previous limit is restored at the end. The
    setting belongs to the whole session, so blocks that change it run one at a time. If the session
    refuses it, batches are as large as Spark makes them.
    """
    rows = (column.parsed_encoding.rows_per_batch for column in schema)
    wanted = min(rows, default=10_000)  # Spark's own default
    with _setting:
        current = int(read_conf(session, _BATCH_CONF) or 0)
        is_small = 0 < current <= wanted
        with session_conf(session, {} if is_small else {_BATCH_CONF: str(wanted)}):
            yield
