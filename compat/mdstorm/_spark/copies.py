"""Where the copies of converted DataFrames are stored, and when they are reused."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from mdstorm._datasets import scheme_less
from mdstorm._spark.kept_copies import CacheKey
from mdstorm.errors import InvalidArgumentError, MissingDependencyError, UnsupportedURLError
from mdstorm_backend.format import INDEX_NAME
from mdstorm_backend.read import map_in_threads
from mdstorm_backend.spark import is_local, read_conf, why_not_writable
from mdstorm_backend.storage import Location, has_scheme, normalize_url, url_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


#: This process's conversions. Maps each content fingerprint from `identify` to the copy's URL, and
#: to the frame if plans can be compared.
_conversions: dict[str, tuple[str, DataFrame | None]] = {}
#: Held during lookup and conversion, so that equal frames in several threads are written only once.
_lock = threading.RLock()
#: The keys that file systems use to report a file's version.
_VERSION_KEYS = ("size", "mtime", "LastModified", "last_modified", "updated", "ETag", "etag")
_STAT_THREADS = 16
_logger = logging.getLogger("mdstorm.spark.spark_dataset_converter")
PETASTORM_CONF = "petastorm.spark.converter.parentCacheDirUrl"
MDSTORM_CONF = "mdstorm.spark.converter.parentCacheDirUrl"
ENVIRONMENT_VARIABLE = "MDSTORM_PARENT_CACHE_DIR_URL"
STAGING_CONF = "mdstorm.spark.converter.staging"
STAGING_VARIABLE = "MDSTORM_STAGING"
DIRECTORY_CONF = "mdstorm.spark.converter.stagingDirUrl"
DIRECTORY_VARIABLE = "MDSTORM_STAGING_DIR_URL"
_MODES = ("true", "false", "auto")
#: Pairs of application and directory for which executors are known to have write access.
_writable: set[tuple[str | None, str]] = set()


def find_or_convert(
    df: DataFrame, options: dict[str, Any], convert: Callable[[], str], cache_key: str | None
) -> str:
    """Return the URL of the converted copy of a frame, converting it if there is none.

    Parameters
    ----------
    df : pyspark.sql.DataFrame
        The frame.
    options : dict
        JSON values that distinguish copies of the same frame, and the ``parent`` cache directory.
    convert : callable
        Writes the frame and returns the URL.
    cache_key : str, optional
        Name by which other processes can also find the copy.
    """
    content, source = identify(df, options)
    with _lock:
        remembered = _remembered(content, df)
        if cache_key:
            key = CacheKey(options["parent"], cache_key)
            dir_url = key.find_or_convert(source, convert, remembered)
        else:
            dir_url = remembered or convert()
        _conversions[content] = (dir_url, df if hasattr(df, "_jdf") else None)
        return dir_url


def forget(dir_url: str) -> None:
    """Forget the conversion that wrote `dir_url`."""
    with _lock:
        for content, (url, _) in list(_conversions.items()):
            if url == dir_url:
                del _conversions[content]


def _remembered(content: str, df: DataFrame) -> str | None:
    """Return the copy that this process wrote, if it still exists.

    Plans are compared where possible, because hashes may collide.
    """
    dir_url, frame = _conversions.get(content, (None, None))
    if dir_url is None or not Location.of(dir_url).exists(INDEX_NAME):
        return None
    is_same = frame is None or not hasattr(df, "_jdf") or frame.sameSemantics(df)
    return dir_url if is_same else None


def identify(df: DataFrame, options: dict[str, Any]) -> tuple[str, str]:
    """Compute fingerprints of a frame in its current state and of its conversion options.

    The sizes and times of source files are included where they can be read, so that overwritten
    files are detected. The plan hash is computed on a new frame, because a Spark Connect frame
    caches its first hash.

    Returns
    -------
    content : str
        Fingerprint of the plan, schema, source file versions and options. Within a process, two
        frames with the same fingerprint contain the same data.
    source : str
        Fingerprint without the plan, which is meaningless in other processes.
    """
    plan = df.select("*").semanticHash()
    versions = sorted(map_in_threads(_file_version, df.inputFiles(), _STAT_THREADS))
    source = [df.schema.json(), versions, options]
    return _digest([plan, *source]), _digest(source)


def _file_version(url: str) -> list[Any]:
    directory, _, name = unquote(url).rpartition("/")
    try:
        info = Location.of(directory).stat(name)
    except Exception as error:
        # Each store raises its own errors if a driver, credentials or the file are missing.
        _logger.debug("%s: only the URL is compared, not the version (%r)", url, error)
        return [url]
    return [url, *(str(info[key]) for key in _VERSION_KEYS if key in info)]


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def configured_parent(
    session: SparkSession | None, argument: str | os.PathLike[str] | None
) -> str | os.PathLike[str] | None:
    """Return the parent cache directory as configured by the user; None if it is not configured.

    In order of precedence, the sources are `argument`, the conf ``mdstorm.…``, the conf
    ``petastorm.…``, and the environment variable ``MDSTORM_PARENT_CACHE_DIR_URL``. They are read
    again on each call.
    """
    return (
        argument
        or read_conf(session, MDSTORM_CONF)
        or read_conf(session, PETASTORM_CONF)
        or os.environ.get(ENVIRONMENT_VARIABLE)
    )


def parent_cache_dir(session: SparkSession, argument: str | os.PathLike[str] | None = None) -> str:
    """Return the parent cache directory from `configured_parent`, as a normalised URL.

    Raises
    ------
    InvalidArgumentError
        If no parent cache directory is configured.
    UnsupportedURLError
        If the directory has no scheme and is not on a Databricks mount.
    """
    url = configured_parent(session, argument)
    if not url:
        raise InvalidArgumentError(
            f"Please set the spark config {PETASTORM_CONF}. It names the directory for converted "
            "DataFrames, such as file:///tmp/cache, or file:///dbfs/tmp/cache on Databricks. If "
            "you have set it, check its key, SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF. "
            "Without Spark conf, pass parent_cache_dir_url=… or set the variable "
            f"{ENVIRONMENT_VARIABLE}"
        )
    normalized = checked_directory(url)
    _warn_if_not_shared(session, normalized)
    return normalized


def checked_directory(url: str | os.PathLike[str], what: str = "directory") -> str:
    """Return the normalised URL of a directory.

    Raises
    ------
    UnsupportedURLError
        If the directory has no scheme and is not on a Databricks mount.
    """
    url = str(url_of(url))
    if not has_scheme(url):
        raise UnsupportedURLError(scheme_less(url, what))
    return normalize_url(url)


def _warn_if_not_shared(session: SparkSession, url: str) -> None:
    """Warn if a directory is on a Databricks driver's disk, which executors cannot access."""
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
    """Return the URL of the directory for staged Parquet; None if executors write the copy.

    Parameters
    ----------
    session : pyspark.sql.SparkSession
        A classic or Connect session. Its confs, and then the environment, provide the values that
        are not passed.
    parent : str
        The parent cache directory, where Parquet is staged if no other directory is configured.
    staging : bool or None
        Whether to stage. If None, executors are tested for write access to `parent`. Local
        executors are assumed to have access, unless the conf or the variable is ``auto``.
    staging_dir_url : str, path or None
        Where to stage.

    Raises
    ------
    InvalidArgumentError
        If the conf or the variable is none of ``true``, ``false`` and ``auto``.
    UnsupportedURLError
        If the directory has no scheme and is not on a Databricks mount.
    MissingDependencyError
        If executors are tested and their Python does not have mdstorm or its dependencies.
    """
    if staging is None:
        mode = (read_conf(session, STAGING_CONF) or os.environ.get(STAGING_VARIABLE) or "").lower()
        if mode and mode not in _MODES:
            raise InvalidArgumentError(
                f"the conf {STAGING_CONF} or the environment variable {STAGING_VARIABLE} is "
                f"{mode!r}: set it to one of {', '.join(_MODES)}"
            )
        staging = mode == "true" or (
            mode != "false" and _is_refused(session, parent, probe_local=mode == "auto")
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


def _is_refused(session: SparkSession, parent: str, *, probe_local: bool) -> bool:
    """Whether executors cannot write to a directory, as tested by a single-task job."""
    location = Location.of(parent)
    # Serverless compute does not reveal the application, but Spark Connect sessions have an ID.
    application = read_conf(session, "spark.app.id") or getattr(session, "session_id", None)
    known = (application, parent)
    # Local executors run on the driver's machine, with the same disk.
    if known in _writable or (location.is_local_disk and is_local(session) and not probe_local):
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
        "Spark's executors cannot write to %s (%s). Spark writes Parquet instead, and the "
        "driver converts it. Set staging=True, or %s=true, to skip this attempt",
        parent,
        reason,
        STAGING_VARIABLE,
    )
    return True
