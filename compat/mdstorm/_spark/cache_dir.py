"""Where converted DataFrames are stored: the configuration, and the rules for its URL."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

from mdstorm._datasets.sources import scheme_less
from mdstorm.errors import InvalidArgumentError, UnsupportedURLError
from mdstorm_backend.spark import is_local, read_conf
from mdstorm_backend.storage import has_scheme, normalize_url, url_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PETASTORM_CONF = "petastorm.spark.converter.parentCacheDirUrl"
MDSTORM_CONF = "mdstorm.spark.converter.parentCacheDirUrl"
ENVIRONMENT_VARIABLE = "MDSTORM_PARENT_CACHE_DIR_URL"

_logger = logging.getLogger("mdstorm.spark.spark_dataset_converter")


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
