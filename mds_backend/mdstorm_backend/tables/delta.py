"""Open a Delta table: which files and rows of it are alive in a version."""

from __future__ import annotations

import os
from datetime import datetime, timezone

from mdstorm_backend.base.checks import parse_json
from mdstorm_backend.base.optional import require
from mdstorm_backend.errors import DatasetNotFoundError, InvalidArgumentError
from mdstorm_backend.storage import Location
from mdstorm_backend.tables.as_of import AsOf
from mdstorm_backend.tables.delta_log import read_log
from mdstorm_backend.tables.delta_storage import of_delta_rs
from mdstorm_backend.tables.fresh_process import run_fresh
from mdstorm_backend.tables.snapshot import TableSnapshot

_LOG = "_delta_log"
#: What deltalake says in a forked child of a process that has used it.
_FORKED = "Forked process detected"

#: Processes that have used deltalake: this one, and its parents at the time of a fork.
_used_by: set[int] = set()


def is_delta(location: Location) -> bool:
    """Whether a directory is a Delta table."""
    return location.child(_LOG).describe() is not None


def open_delta(location: Location, as_of: AsOf) -> TableSnapshot:
    """Find out which files and rows of a Delta table are alive.

    Parameters
    ----------
    location : Location
        The directory of the table.
    as_of : AsOf
        The version to open.

    Raises
    ------
    MissingDependencyError
        If the library deltalake is not installed.
    DatasetNotFoundError
        If the table has no such version.
    UnsupportedTableError
        If the table, or its storage, needs what is not known here.
    CorruptDatasetError
        If its log cannot be read.
    CredentialsError, StorageError
        If the storage denies access or fails.

    Notes
    -----
    deltalake does not work in a forked child of a process that has used it. There, the log is read
    in a process of its own.
    """
    require("deltalake")
    url, options = of_delta_rs(location)
    arguments = location.url, url, options, as_of
    if _used_by and os.getpid() not in _used_by:
        found = run_fresh(read_log, *arguments)
    else:
        try:
            found = read_log(*arguments)
        except BaseException as error:
            if _FORKED not in str(error):
                raise
            found = run_fresh(read_log, *arguments)
        else:
            _used_by.add(os.getpid())
    if as_of.timestamp is not None:
        _check_not_before(location, found.version, as_of)
    return found


def _check_not_before(location: Location, version: int, as_of: AsOf) -> None:
    """Refuse a time before the first version, for which delta-rs opens the first one."""
    committed = _committed(location, version)
    if committed is not None and as_of.time < committed:
        raise DatasetNotFoundError(
            f"{location.url} has no version as old as {as_of}: the oldest version that is left, "
            f"{version}, was written at {committed.isoformat()}",
            url=location.url,
        )


def _committed(location: Location, version: int) -> datetime | None:
    """Return when a version was written; None if its log does not say."""
    try:
        lines = bytes(location.child(_LOG).read(f"{version:020}.json")).splitlines()
    except FileNotFoundError:
        return None
    notes = [note for line in lines if (note := parse_json(line).get("commitInfo"))]
    times = [note.get("inCommitTimestamp") or note.get("timestamp") for note in notes]
    if not times or times[0] is None:
        return None
    return datetime.fromtimestamp(times[0] / 1000, timezone.utc)


def check_as_of(as_of: AsOf | None, url: str) -> None:
    """Refuse a version for what has none.

    Raises
    ------
    InvalidArgumentError
        If one is asked for.
    """
    if as_of:
        raise InvalidArgumentError(
            f"{as_of} chooses a version of a Delta table, and {url} is none: leave it out"
        )
