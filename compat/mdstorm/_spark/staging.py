"""Decide whether a conversion stages Parquet, and where."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from mdstorm._spark.cache_dir import checked_directory
from mdstorm.errors import InvalidArgumentError, MissingDependencyError
from mdstorm_backend.spark import is_local, read_conf, why_not_writable
from mdstorm_backend.storage import Location

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STAGING_CONF = "mdstorm.spark.converter.staging"
STAGING_VARIABLE = "MDSTORM_STAGING"
DIRECTORY_CONF = "mdstorm.spark.converter.stagingDirUrl"
DIRECTORY_VARIABLE = "MDSTORM_STAGING_DIR_URL"

_MODES = ("true", "false", "auto")

#: Directories in which executors were seen to write, each with the application.
_writable: set[tuple[str | None, str]] = set()

_logger = logging.getLogger("mdstorm.spark.spark_dataset_converter")


def staging_dir(
    session: SparkSession,
    parent: str,
    staging: bool | None,
    staging_dir_url: str | os.PathLike[str] | None,
) -> str | None:
    """Return the URL of the directory to stage Parquet in; None if executors write the copy.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
        Of either kind; its confs, and after them the environment, are asked for what is not given.
    parent : str
        The parent cache directory, in which Parquet is staged if no other directory is given.
    staging : bool or None
        Whether to stage; None finds out whether executors can write below `parent`. Local ones can,
        unless the conf or the variable is ``auto``, which has them asked as well.
    staging_dir_url : str, path or None
        Where to stage.

    Raises
    ------
    InvalidArgumentError
        If the conf or the variable is none of ``true``, ``false`` and ``auto``.
    UnsupportedURLError
        If the directory has no scheme and is not on a Databricks mount.
    MissingDependencyError
        If executors are asked, and their Python lacks mdstorm or what it needs.
    """
    if staging is None:
        mode = _configured(session)
        staging = mode == "true" or (
            mode != "false" and _is_refused(session, parent, ask_local=mode == "auto")
        )
    if not staging:
        return None
    url = (
        staging_dir_url
        or read_conf(session, DIRECTORY_CONF)
        or os.environ.get(DIRECTORY_VARIABLE)
        or parent
    )
    return checked_directory(url, "staging directory")


def _configured(session: SparkSession) -> str:
    """Return what the conf, or else the variable, says; empty if neither is set."""
    mode = (read_conf(session, STAGING_CONF) or os.environ.get(STAGING_VARIABLE) or "").lower()
    if mode and mode not in _MODES:
        raise InvalidArgumentError(
            f"the conf {STAGING_CONF} or the environment variable {STAGING_VARIABLE} is {mode!r}: "
            f"set it to one of {', '.join(_MODES)}"
        )
    return mode


def _is_refused(session: SparkSession, parent: str, *, ask_local: bool) -> bool:
    """Find out, with a job of one task, whether executors cannot write below a directory."""
    location = Location.of(parent)
    # Serverless compute does not tell the application; sessions of Spark Connect have an id.
    application = read_conf(session, "spark.app.id") or getattr(session, "session_id", None)
    known = (application, parent)
    # Local executors are children of the driver, on the same disk.
    if known in _writable or (location.is_local_disk and is_local(session) and not ask_local):
        return False
    try:
        reason = why_not_writable(session, location)
    except MissingDependencyError as error:
        raise MissingDependencyError(
            f"{error.args[0]}. If that is not possible, pass staging=True, or set "
            f"{STAGING_VARIABLE}=true: Spark then writes Parquet, and the driver converts it"
        ) from error.__cause__
    if not reason:
        _writable.add(known)
        return False
    _logger.warning(
        "Spark's executors cannot write below %s (%s). Spark writes Parquet instead, and the "
        "driver converts it. Set staging=True, or %s=true, to skip this attempt",
        parent,
        reason,
        STAGING_VARIABLE,
    )
    return True
