"""Directories that look like finished copies of DataFrames, written without Spark."""

import os
import time
from pathlib import Path

from mdstorm._spark.kept_copies import CacheKey
from mdstorm_backend.storage import Location

#: Prefix of copies' directory names.
NAME = "20260102030405-appid-local-1-"


def write_copy(parent: Path, number: int) -> str:
    """Write a finished copy and return its URL."""
    location = Location.of(str(parent / f"{NAME}{number}"))
    location.make_directory()
    for name in ("_mdstorm", "part-00000-0123abcd-0.00000.mds", "index.json"):
        location.write(name, [b"{}"])
    return location.url


def give_key(parent: Path, key: str, url: str) -> None:
    """Make a copy the one of a cache key."""
    CacheKey(parent.as_uri(), key).find_or_convert("source", lambda: url, None)


def set_age(url: str, age: float) -> None:
    """Make a copy look as if it was last used `age` seconds ago."""
    last_use = time.time() - age
    for path in Path(url.removeprefix("file://")).iterdir():
        os.utime(path, (last_use, last_use))
