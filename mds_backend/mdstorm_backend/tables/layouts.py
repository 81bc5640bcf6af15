"""Recognise directories in which not all Parquet files belong to the data.

Directories without ``_SUCCESS`` are complete as far as anyone can tell: pyarrow, Dask and others
write none. What is recognised is what jobs leave behind that did not end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from mdstorm_backend.base.shard_threads import map_files
from mdstorm_backend.errors import UnsupportedTableError
from mdstorm_backend.storage import Location
from mdstorm_backend.tables.table_names import read_by_spark

#: What is in the names below: most directories hold many files, and none of these.
_MARKS = ("_delta_log/", "metadata/", ".hoodie/", "_temporary/", "_started_", "_committed_")
_DELTA = re.compile(r"(?:(?P<directory>.*)/)?_delta_log/.*")
_ICEBERG = re.compile(r"(?:(?P<directory>.*)/)?metadata/[^/]*\.metadata\.json(?:\.gz)?")
_HUDI = re.compile(r"(?:(?P<directory>.*)/)?\.hoodie/.*")
_TEMPORARY = re.compile(r"(?:(?P<directory>.*)/)?_temporary/.*")
#: Names of the files by which Databricks marks the beginning and the end of a job.
_MARKER = re.compile(r"(?:(?P<directory>.*)/)?_(?P<kind>started|committed)_(?P<job>\d+)")
_OF_JOB = re.compile(r"-tid-(?P<job>\d+)-")


def check_layout(location: Location, names: Sequence[str]) -> None:
    """Refuse a directory some of whose Parquet files may hold rows that are not part of the data.

    Parameters
    ----------
    location : Location
        The directory.
    names : sequence of str
        All files in it and below.

    Raises
    ------
    UnsupportedTableError
        If it is a table of Iceberg or Hudi, or a job of Spark has not ended, or removed files that
        are still there.
    """
    marked = [name for name in names if any(mark in name for mark in _MARKS)]
    for name in marked:
        if match := _DELTA.fullmatch(name):
            raise part_of_a_table(location.url, _directory(location, match))
        if match := _ICEBERG.fullmatch(name):
            raise _table("Iceberg", "metadata/*.metadata.json", _directory(location, match))
        if match := _HUDI.fullmatch(name):
            raise _table("Hudi", ".hoodie", _directory(location, match))
        if match := _TEMPORARY.fullmatch(name):
            raise _unfinished(_directory(location, match))
    if marked:
        _check_markers(location, names)


def part_of_a_table(url: str, table: str) -> UnsupportedTableError:
    """Return the error for files that are part of a Delta table, or directories with one inside."""
    return UnsupportedTableError(
        f"{url} is read as files, but {table} is a Delta table, whose files may hold rows that "
        "were deleted or replaced. Read the table by its own URL, one at a time, and select "
        "partitions with filters=[(column, '=', value)]",
        url=table,
    )


def _directory(location: Location, match: re.Match[str]) -> str:
    inside = match["directory"]
    return f"{location.url}/{inside}" if inside else location.url


def _unfinished(url: str) -> UnsupportedTableError:
    return UnsupportedTableError(
        f"{url} holds the directory _temporary: a Spark job is writing there, or has failed, and "
        "its files may be incomplete. Wait until it has ended; if it has failed, write the data "
        "again, or remove _temporary and what the job wrote",
        url=url,
    )


def _table(kind: str, mark: str, url: str) -> UnsupportedTableError:
    return UnsupportedTableError(
        f"{url} is a table of {kind} (it holds {mark}), which is not read: its files may hold rows "
        f"that were deleted or replaced. {read_by_spark(url, kind.lower())}",
        url=url,
    )


def _check_markers(location: Location, names: Sequence[str]) -> None:
    """Refuse files of jobs that have not ended, and files that a job has removed logically."""
    found = [match for match in map(_MARKER.fullmatch, names) if match]
    if not found:
        return
    jobs: dict[str, set[str]] = {"started": set(), "committed": set()}
    for match in found:
        jobs[match["kind"]].add(match["job"])
    open_jobs = jobs["started"] - jobs["committed"]
    of_jobs = [match for match in map(_OF_JOB.search, names) if match]
    unfinished = [match for match in of_jobs if match["job"] in open_jobs]
    if unfinished:
        raise UnsupportedTableError(
            f"{location.url}/{unfinished[0].string} was written by a Spark job that has not "
            f"ended, or has failed: there is _started_{unfinished[0]['job']} and no _committed_. "
            "Wait until it has ended, or remove what a failed job wrote: spark.sql('VACUUM …') "
            "on Databricks",
            url=location.url,
        )
    committed = [match for match in found if match["kind"] == "committed"]
    removed = set().union(*map_files(lambda match: _removed(location, match), committed))
    dead = sorted(removed.intersection(names))
    if dead:
        raise UnsupportedTableError(
            f"{location.url}/{dead[0]} was removed by a Spark job, according to its _committed_ "
            "file, but is still there. Delete such files with spark.sql('VACUUM …') on "
            f"Databricks, or convert spark.read.parquet({location.url!r}) by make_spark_converter",
            url=location.url,
        )


def _removed(location: Location, marker: re.Match[str]) -> set[str]:
    """Return the files that a job has removed, as names relative to the dataset."""
    try:
        note: Any = json.loads(bytes(location.read(marker.group())))
        removed = [str(name) for name in note.get("removed", [])]
    except (AttributeError, TypeError, ValueError, FileNotFoundError):
        return set()
    directory = f"{marker['directory']}/" if marker["directory"] else ""
    return {directory + name for name in removed}
