"""The configuration of Spark sessions, also of those that refuse it, and URLs in Spark's spelling.

Serverless compute refuses to tell what is not on a short list, also if a default is given, and to
change it.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from mdstorm_backend.spark.refusals import is_refusal, short_reason

#: Volumes and DBFS, for which Spark does not use file paths.
_MOUNTS = {"file:///Volumes/": "dbfs:/Volumes/", "file:///dbfs/": "dbfs:/"}

_logger = logging.getLogger(__name__)


def read_conf(session: Any, key: str) -> str | None:
    """Return a configuration value; None if it is not set, or if the session refuses to tell.

    Parameters
    ----------
    session : pyspark.sql.SparkSession or None
        Of either kind. None, and the mock of a test, have no values.
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
    """Set configuration values in a block, as far as the session allows, and restore them.

    Yields
    ------
    frozenset of str
        The keys that it refuses: the block has to do without them.
    """
    conf = getattr(session, "conf", None)
    if conf is None:
        yield frozenset(values)
        return
    before: dict[str, str | None] = {}
    try:
        for key, value in values.items():
            try:
                was = conf.get(key, None)
                conf.set(key, value)
            except Exception as error:
                _check_refused(error, key)
            else:
                before[key] = was
        yield frozenset(values.keys() - before.keys())
    finally:
        for key, was in before.items():
            _restore(conf, key, was)


def _restore(conf: Any, key: str, was: str | None) -> None:
    """Set a value as it was; a failure is only logged, so that it does not hide that of a job."""
    try:
        if was is None:
            conf.unset(key)
        else:
            conf.set(key, was)
    except Exception as error:  # each kind of session has errors of its own, and may be gone
        _logger.warning(
            "the conf %s could not be restored to %r (%s)", key, was, short_reason(error)
        )


def _check_refused(error: Exception, key: str) -> None:
    """Log that a session refuses a value; raise the error if it is another one."""
    if not is_refusal(error):
        raise error
    _logger.debug("this session refuses the conf %s", key, exc_info=error)


def is_local(session: Any) -> bool:
    """Whether executors are children of this process, on its disk; False if it cannot be known."""
    # A Spark Connect server has a machine, or a working directory and mounts, of its own, unless
    # PySpark has started it in this process.
    is_client = type(session).__module__.startswith("pyspark.sql.connect.")
    if is_client and "SPARK_LOCAL_REMOTE" not in os.environ:
        return False
    return (read_conf(session, "spark.master") or "").lower().startswith("local")


def spark_url(url: str) -> str:
    """Return a normalised URL in Spark's spelling."""
    for mount, spelling in _MOUNTS.items():
        if url.startswith(mount):
            return spelling + url[len(mount) :]
    return url
