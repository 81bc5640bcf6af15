"""The identity of a DataFrame, which tells when a converted copy is the same data."""

from __future__ import annotations

import hashlib
import json
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from mdstorm_backend.storage import Location

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

#: What file systems tell of a file's version, whatever they call it.
_VERSION_KEYS = ("size", "mtime", "LastModified", "last_modified", "updated", "ETag", "etag")
_STAT_THREADS = 16


class Identity:
    """Fingerprints of a DataFrame together with the options of its conversion.

    Attributes
    ----------
    content : str
        Plan, schema, versions of the source files and options. Two frames with the same one are
        the same data, within one process.
    source : str
        The same without the plan, which has no meaning in another process.
    """

    def __init__(self, plan: int, schema: str, files: list[Any], options: dict[str, Any]) -> None:
        self.content = _digest([plan, schema, files, options])
        self.source = _digest([schema, files, options])


def identify(df: DataFrame, options: dict[str, Any]) -> Identity:
    """Take the identity of a frame as it is now.

    Source files count with their sizes and times where they can be read, so that overwritten ones
    are noticed. A new frame is made for the hash: on Spark Connect a frame remembers its first one.
    """
    plan = df.select("*").semanticHash()
    return Identity(plan, df.schema.json(), _file_versions(df.inputFiles()), options)


def _file_versions(urls: list[str]) -> list[Any]:
    if not urls:
        return []
    with ThreadPoolExecutor(min(_STAT_THREADS, len(urls))) as pool:
        return sorted(pool.map(_file_version, urls))


def _file_version(url: str) -> list[Any]:
    directory, _, name = unquote(url).replace("s3a://", "s3://", 1).rpartition("/")
    try:
        info = Location.of(directory).stat(name)
    except Exception:
        # No driver, no credentials, no such file: each storage has errors of its own for that, and
        # then the name alone has to do.
        return [url]
    return [url, *(str(info[key]) for key in _VERSION_KEYS if key in info)]


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
