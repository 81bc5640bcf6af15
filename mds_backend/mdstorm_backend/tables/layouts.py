"""Detect directories in which some Parquet files are not part of the data.

A missing ``_SUCCESS`` does not mean that a directory is incomplete, because pyarrow, Dask and
others do not write one. Unfinished jobs are detected by the files that they leave behind.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from mdstorm_backend.base import map_files, parse_json
from mdstorm_backend.errors import UnsupportedTableError
from mdstorm_backend.storage import Location
from mdstorm_backend.tables.delta import is_delta
from mdstorm_backend.tables.iceberg import is_iceberg
from mdstorm_backend.tables.snapshot import read_by_spark

#: Every path that `_KINDS` or `_MARKER` matches contains one of these strings, which are searched
#: for first because that is faster.
_MARKS = ("_delta_log/", "metadata/", ".hoodie", "_temporary/", "_started_", "_committed_")
#: Kinds of directories, each with a pattern that matches the paths of its files.
_KINDS = {
    "delta": re.compile(r"(?:(?P<directory>.*)/)?_delta_log/.*"),
    "iceberg": re.compile(r"(?:(?P<directory>.*)/)?metadata/[^/]*\.metadata\.json(?:\.gz)?"),
    "hudi": re.compile(r"(?:(?P<directory>.*)/)?(\.hoodie/.*|\.hoodie_partition_metadata.*)"),
    "unfinished": re.compile(r"(?:(?P<directory>.*)/)?_temporary/.*"),
}
#: Names of the files with which Databricks marks the start and the end of a job.
_MARKER = re.compile(r"(?:(?P<directory>.*)/)?_(?P<kind>started|committed)_(?P<job>\d+)")
#: Names of directories that may be part of a table: partitions (``key=value`` or a date), ``data``,
#: and the random prefixes of Delta (two characters) and Iceberg (4 to 8 bits).
_PART = re.compile(r".*=.*|[A-Za-z0-9]{2}|data|[01]{4,8}|\d{4}(-?\d\d){0,2}")
_OF_JOB = re.compile(r"-tid-(?P<job>\d+)-")


def check_layout(location: Location, names: Sequence[str]) -> None:
    """Raise an error if Parquet files in a directory may hold rows that are not part of the data.

    Parameters
    ----------
    location : Location
        The directory.
    names : sequence of str
        All files in the directory, at any depth.

    Raises
    ------
    UnsupportedTableError
        If it contains a Delta, Iceberg or Hudi table, if a Spark job has not finished, or if files
        that a job removed are still there.
    """
    marked = [name for name in names if any(mark in name for mark in _MARKS)]
    for name in marked:
        for kind, pattern in _KINDS.items():
            if match := pattern.fullmatch(name):
                raise _not_plain(location.url, kind, _directory(location, match))
    if marked:
        _check_markers(location, names)


def check_no_part_of_a_table(
    url: str, location: Location, files: Iterable[str] | None = None
) -> None:
    """Raise an error if the files to read belong to a table, because they may hold deleted rows.

    Parameters
    ----------
    url : str
        The URL that the user passed, for messages.
    location : Location
        The directory to read, or the one that holds the files; not a table itself.
    files : iterable of str, optional
        Paths of the files to read in it; by default everything.

    Raises
    ------
    UnsupportedTableError
        If the directory of a file, or one above it at any level, is a table.
    """
    if files is None:
        directories = {location.url} if _may_be_part_of_a_table(location.url) else set()
    else:
        directories = {location.file_url(name).rpartition("/")[0] for name in files}
    for directory in dict.fromkeys(url for one in directories for url in _with_those_above(one)):
        table = replace(location, url=directory)
        if is_delta(table):
            raise _not_plain(url, "delta", directory)
        # In other formats, a partition directory (key=value) is not a table itself.
        if "=" in directory.rpartition("/")[2]:
            continue
        if is_hudi(table):
            message = f"{url} is read as files, but {unread_message(directory)}"
            raise UnsupportedTableError(message, url=directory)
        if is_iceberg(table):
            raise _not_plain(url, "iceberg", directory)


def _may_be_part_of_a_table(directory: str) -> bool:
    """Whether a directory's name looks like a partition or data directory of a table."""
    return _PART.fullmatch(directory.rpartition("/")[2]) is not None


def _with_those_above(directory: str) -> Iterator[str]:
    """Yield the URLs of a directory and its parents, up to the first that cannot be in a table."""
    yield directory
    while _may_be_part_of_a_table(directory):
        directory = directory.rpartition("/")[0]
        if directory.endswith("/"):  # the slashes after the scheme
            return
        yield directory


def is_hudi(location: Location) -> bool:
    """Whether a directory is a Hudi table, which cannot be read."""
    return location.child(".hoodie").describe() is not None


def unread_message(url: str) -> str:
    """Return the error message about a Hudi table, which mdstorm cannot read."""
    return (
        f"{url} is a Hudi table (it has .hoodie), which cannot be read: its files may hold rows "
        f"that were deleted or replaced. {read_by_spark(url, 'hudi')}"
    )


def _not_plain(url: str, kind: str, directory: str) -> UnsupportedTableError:
    """Return the error about `directory`, a table or unfinished output in or above `url`.

    `kind`, the kind of `directory`, is one of `_KINDS`.
    """
    if kind == "hudi":
        message = unread_message(directory)
    elif kind == "unfinished":
        message = (
            f"{directory} holds the directory _temporary: a Spark job is writing there, or has "
            "failed, and its files may be incomplete. Wait until it has ended; if it has failed, "
            "write the data again, or remove _temporary and what the job wrote"
        )
    else:
        table = "a Delta" if kind == "delta" else "an Iceberg"
        message = (
            f"{url} is read as files, but {directory} is {table} table, whose files may hold "
            "rows that were deleted or replaced. Read the table by its own URL, one at a time, and "
            "select partitions with filters=[(column, '=', value)]"
        )
    return UnsupportedTableError(message, url=directory)


def _directory(location: Location, match: re.Match[str]) -> str:
    inside = match["directory"]
    return f"{location.url}/{inside}" if inside else location.url


def _check_markers(location: Location, names: Sequence[str]) -> None:
    """Raise an error for files that unfinished Spark jobs wrote, or that finished jobs removed."""
    markers = [match for match in map(_MARKER.fullmatch, names) if match]
    committed = [match for match in markers if match["kind"] == "committed"]
    open_jobs = {match["job"] for match in markers} - {match["job"] for match in committed}
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
    removed = set().union(*map_files(lambda match: _removed(location, match), committed))
    dead = sorted(removed.intersection(names))
    if dead:
        raise UnsupportedTableError(
            f"{location.url}/{dead[0]} was removed by a Spark job, according to its _committed_ "
            "file, but is still there. Delete such files with spark.sql('VACUUM …') on "
            f"Databricks, or pass spark.read.parquet({location.url!r}) to make_spark_converter",
            url=location.url,
        )


def _removed(location: Location, marker: re.Match[str]) -> set[str]:
    """Return the files that a job has marked as removed, relative to the dataset."""
    try:
        note = parse_json(location.read(marker.group()))
        removed = [str(name) for name in note.get("removed", [])]
    except (AttributeError, TypeError, ValueError, FileNotFoundError):
        return set()
    directory = f"{marker['directory']}/" if marker["directory"] else ""
    return {directory + name for name in removed}
