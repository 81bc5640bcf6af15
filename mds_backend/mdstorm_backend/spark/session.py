"""Temporary settings of a Spark session, and URLs in Spark's spelling."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Volumes and DBFS, for which Spark does not use file paths.
_MOUNTS = {"file:///Volumes/": "dbfs:/Volumes/", "file:///dbfs/": "dbfs:/"}

_logger = logging.getLogger(__name__)


@contextmanager
def session_conf(session: SparkSession, values: Mapping[str, str]) -> Iterator[None]:
    """Set some configuration values, if the session allows it, and restore them at the end."""
    before: dict[str, str | None] = {}
    try:
        for key, value in values.items():
            try:
                was = session.conf.get(key, None)
                session.conf.set(key, value)
            except Exception:  # each kind of session raises its own error
                _logger.debug("%s cannot be set here", key, exc_info=True)
            else:
                before[key] = was
        yield
    finally:
        for key, was in before.items():
            if was is None:
                session.conf.unset(key)
            else:
                session.conf.set(key, was)


def spark_url(url: str) -> str:
    """Return a normalised URL in Spark's spelling."""
    for mount, spelling in _MOUNTS.items():
        if url.startswith(mount):
            return spelling + url[len(mount) :]
    return url
