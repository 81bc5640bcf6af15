"""Where converted DataFrames, and staged Parquet, are stored: configuration and rules for URLs."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from mdstorm._datasets.sources import scheme_less
from mdstorm.errors import InvalidArgumentError, MissingDependencyError, UnsupportedURLError
from mdstorm_backend.spark import is_local, read_conf, why_not_writable
from mdstorm_backend.storage import Location, has_scheme, normalize_url, url_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


PETASTORM_CONF = "petastorm.spark.converter.parentCacheDirUrl"
MDSTORM_CONF = "mdstorm.spark.converter.parentCacheDirUrl"
ENVIRONMENT_VARIABLE = "MDSTORM_PARENT_CACHE_DIR_URL"

_logger = logging.getLogger("mdstorm.spark.spark_dataset_converter")
STAGING_CONF = "mdstorm.spark.converter.staging"
STAGING_VARIABLE = "MDSTORM_STAGING"
DIRECTORY_CONF = "mdstorm.spark.converter.stagingDirUrl"
DIRECTORY_VARIABLE = "MDSTORM_STAGING_DIR_URL"
_MODES = ("true", "false", "auto")
#: Directories in which executors were seen to write, each with the application.
_writable: set[tuple[str | None, str]] = set()


def parent_cache_dir(session: SparkSession, argument: str | os.PathLike[str] | None = None) -> str:
    """Return the URL of the parent cache directory, normalised.

    The first of these that is set takes precedence: `argument`, the conf ``mdstorm.…``, the conf
    ``petastorm.…``, the environment variable ``MDSTORM_PARENT_CACHE_DIR_URL``. They are read again
    on each call.

    Raises
    ------
    InvalidArgumentError
        If none of them is set.
    UnsupportedURLError
        If it has no scheme and is not on a Databricks mount.
    """
    url = (
        argument
        or read_conf(session, MDSTORM_CONF)
        or read_conf(session, PETASTORM_CONF)
        or os.environ.get(ENVIRONMENT_VARIABLE)
    )
    if not url:
        raise InvalidArgumentError(
            f"Please set the spark config {PETASTORM_CONF}. It names the directory for converted "
            "DataFrames, such as file:///tmp/cache, or file:///dbfs/tmp/cache on Databricks. If it "
            "is set, its key is misspelled: use SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF. "
            "Without Spark conf, pass parent_cache_dir_url=… or set the variable "
            f"{ENVIRONMENT_VARIABLE}"
        )
    normalized = checked_directory(url)
    _warn_if_not_shared(session, normalized)
    return normalized


def checked_directory(url: str | os.PathLike[str], what: str = "directory") -> str:
    """Return the URL of a directory, normalised.

    Raises
    ------
    UnsupportedURLError
        If it has no scheme and is not on a Databricks mount.
    """
    url = str(url_of(url))
    if not has_scheme(url):
        raise UnsupportedURLError(scheme_less(url, what))
    return normalize_url(url)


def _warn_if_not_shared(session: SparkSession, url: str) -> None:
    """On a Databricks cluster, local directories belong to one machine."""
    on_cluster = "DATABRICKS_RUNTIME_VERSION" in os.environ and not is_local(session)
    shared = url.startswith(("file:///dbfs/", "file:///Volumes/", "file:///Workspace/"))
    if on_cluster and url.startswith("file:") and not shared:
        _logger.warning(
            "Usually, when running on databricks, you should specify a dbfs fuse path or a Unity "
            "Catalog volume for %s, since executors cannot see the driver's disk; found %s",
            PETASTORM_CONF,
            url,
        )


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
