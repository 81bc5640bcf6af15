"""Check the cache of shards on this machine, and the directory for converted DataFrames."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from mdstorm.doctor._findings import Finding, of_error

_ROOM = 1 << 30
_NO_ROOM = 16 << 20
#: File systems of other machines, whose locks and renames may be slow or missing.
_REMOTE = ("9p", "afs", "cifs", "fuse", "nfs", "smb", "virtiofs")


def look_at_cache() -> Iterator[Finding]:
    """Check the directory in which copies of remote shards are kept."""
    from mdstorm_backend.cache import cache_root

    path = Path(cache_root())
    remedy = "let MDSTORM_CACHE_DIR name a directory of yours on a local disk"
    if path.is_symlink():
        yield Finding("cache", "problem", f"{path} is a link, which is refused", remedy)
        return
    nearest = next(one for one in (path, *path.parents) if one.exists())
    if not nearest.is_dir():
        yield Finding("cache", "problem", f"{nearest} is not a directory", remedy)
        return
    if nearest == path and path.stat().st_uid != os.getuid():
        yield Finding("cache", "problem", f"{path} belongs to another user", remedy)
        return
    try:
        _write_and_rename(nearest)
    except OSError as error:
        yield Finding("cache", "problem", f"{path} cannot be written to: {error}", remedy)
        return
    kind = _kind_of(path)
    if kind.startswith(_REMOTE):
        yield Finding("cache", "warning", f"{path} is on {kind}, which is no local disk", remedy)
    yield from _look_at_room("cache", nearest, f"{path} can be written to", remedy)


def _write_and_rename(directory: Path) -> None:
    """Write a file, rename it and remove it."""
    with tempfile.TemporaryDirectory(prefix="mdstorm-doctor-", dir=directory) as own:
        file = Path(own, "written")
        file.write_bytes(b"mdstorm doctor")
        file.replace(file.with_name("renamed"))


def _look_at_room(check: str, path: Path, found: str, remedy: str) -> Iterator[Finding]:
    free = shutil.disk_usage(path).free
    found = f"{found}, with {free / _ROOM:,.1f} GiB free"
    if free < _NO_ROOM:
        yield Finding(check, "problem", found, f"free some space, or {remedy}")
    elif free < _ROOM:
        yield Finding(check, "warning", found, f"free some space, or {remedy}")
    else:
        yield Finding(check, "ok", found)


def _kind_of(path: Path) -> str:
    """Return the type of the file system of a path; empty if this system does not tell."""
    with suppress(OSError):
        mounts = [line.split() for line in Path("/proc/mounts").read_text("utf-8").splitlines()]
        within = [(len(m[1]), m[2]) for m in mounts if path.is_relative_to(m[1])]
        return max(within)[1] if within else ""
    return ""


def configured_directory(session: Any) -> str | None:
    """Return the URL of the parent cache directory that is configured; None if there is none."""
    from mdstorm._spark.copies import ENVIRONMENT_VARIABLE, MDSTORM_CONF, PETASTORM_CONF
    from mdstorm_backend.spark import read_conf

    confs = (MDSTORM_CONF, PETASTORM_CONF)
    found = next(filter(None, (read_conf(session, key) for key in confs)), None)
    return found or os.environ.get(ENVIRONMENT_VARIABLE)


def look_at_directory(url: str | None, session: Any) -> Iterator[Finding]:
    """Check the directory for converted DataFrames: write a small file there, and remove it."""
    from mdstorm._spark.copies import PETASTORM_CONF, checked_directory
    from mdstorm_backend.errors import MDStormError
    from mdstorm_backend.spark import check_driver_writes
    from mdstorm_backend.storage import Location, check_scheme

    check = "cache-dir"
    if not url:
        yield Finding(
            check,
            "note",
            "no directory for converted DataFrames is configured",
            f"set the conf {PETASTORM_CONF}, or run `mdstorm doctor --cache-dir URL`",
        )
        return
    try:
        url = checked_directory(url)
        check_scheme(url)
        location = Location.of(url)
        with _nothing_left(location.path if location.is_in_file_tree else ""):
            check_driver_writes(location)
    except (MDStormError, OSError) as error:
        yield of_error(check, error)
        return
    if not location.is_in_file_tree:
        yield Finding(check, "ok", f"this process can write to {url}")
        return
    path = next(one for one in (Path(location.path), *Path(location.path).parents) if one.exists())
    remedy = "choose a directory elsewhere"
    yield from _look_at_room(check, path, f"this process can write to {url}", remedy)
    yield from _look_at_sharing(check, location.path, session)


@contextmanager
def _nothing_left(path: str) -> Iterator[None]:
    """At the end, remove the directories on the way to a path that are not there yet, if empty."""
    missing = [one for one in (Path(path), *Path(path).parents) if path and not one.exists()]
    try:
        yield
    finally:
        for one in missing:
            with suppress(OSError):
                one.rmdir()


def _look_at_sharing(check: str, path: str, session: Any) -> Iterator[Finding]:
    """Warn of a directory on this machine that other machines would need to see."""
    from mdstorm_backend.errors import InvalidArgumentError
    from mdstorm_backend.order import find_world
    from mdstorm_backend.spark import is_local

    shared = path.startswith(("/dbfs/", "/Volumes/", "/Workspace/"))
    if shared or _kind_of(Path(path)).startswith(_REMOTE):
        return
    with suppress(InvalidArgumentError):
        if find_world().num_nodes > 1:
            yield _unshared(check, path, f"the job has {find_world().num_nodes} hosts")
    if session is not None and not is_local(session):
        yield _unshared(check, path, "Spark's executors are on other machines")
    elif session is None and "DATABRICKS_RUNTIME_VERSION" in os.environ:
        yield _unshared(check, path, "a cluster of Databricks has several machines")


def _unshared(check: str, path: str, why: str) -> Finding:
    return Finding(
        check,
        "problem",
        f"{path} is on a disk of this machine, and {why}",
        "use a store or a mount that all of them see: s3://…, gs://…, abfss://…, dbfs:/…, NFS",
    )
