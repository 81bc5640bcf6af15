"""Commit or roll back a `dataframe_to_mds` job."""

from __future__ import annotations

import logging
import posixpath
from collections.abc import Sequence
from functools import partial

from mdstorm_backend.base.checks import warn_user
from mdstorm_backend.base.pools import map_files
from mdstorm_backend.errors import InvalidArgumentError, WriteError
from mdstorm_backend.executors.partition_writer import PartitionJob, directory_name
from mdstorm_backend.executors.tasks import reports_by_partition
from mdstorm_backend.format.index import INDEX_NAME
from mdstorm_backend.format.schema import Schema
from mdstorm_backend.storage import Location
from mdstorm_backend.write.commit import build_index, check_seen, shards_of, write_index
from mdstorm_backend.write.directories import make_directory
from mdstorm_backend.write.merge import Part, merge_parts

_logger = logging.getLogger(__name__)


def make_directories(job: PartitionJob) -> list[Location]:
    """Create the missing directories of a job, and return them.

    Raises
    ------
    WriteError
        If one cannot be created.
    """
    return [location for location in job.locations if make_directory(location)]


def publish_partitions(
    job: PartitionJob, schema: Schema | None, reports: Sequence[str], *, merged: bool
) -> None:
    """Write the index of every partition and, last, the one over all of them.

    What unsuccessful attempts wrote is removed.

    Parameters
    ----------
    schema : Schema or None
        Plan of the columns; None if samples were written one at a time.
    reports : sequence of str
        What the tasks returned.
    merged : bool
        Write the index over all partitions.

    Raises
    ------
    InvalidArgumentError
        If there are no samples.
    WriteError
        If the driver does not see what the executors wrote, or another job has written to the same
        directory in the meantime.
    """
    parts = _parts(schema, reports)
    if not parts:
        raise InvalidArgumentError(
            "Input dataframe is None or Empty! There are no samples to write, and a dataset "
            "without any cannot be opened by MosaicML Streaming: give it rows, or use "
            "mdstorm_backend.materialize, which writes an empty dataset"
        )
    *copies, target = job.locations
    _check_seen(target, parts)
    _publish(job, target, parts, merged)
    for copy in copies:
        try:
            _check_seen(copy, parts)
        except WriteError:
            warn_user(
                f"{copy.url} has no index: it holds only what was written on this machine, and "
                f"executors ran elsewhere. {target.url} has everything"
            )
        else:
            _publish(job, copy, parts, merged)


def abandon_partitions(job: PartitionJob, made: Sequence[Location]) -> None:
    """Remove what a failed job wrote; failures are logged, since its error is being raised."""
    for location in job.locations:
        try:
            names = location.list_names()
            shards = shards_of(job.job, names)
            for name in shards:
                location.remove(name)
            if location.url.startswith("file:///"):
                for directory in sorted({posixpath.dirname(name) for name in shards}):
                    location.child(directory).remove_directory_if_empty()
            if location in made:
                location.remove_directory_if_empty()
        except Exception:
            _logger.warning("could not clean up %s after a failure", location.url, exc_info=True)


def _parts(schema: Schema | None, reports: Sequence[str]) -> list[Part]:
    """Put the reports of the tasks in the order of partitions and shards."""
    return [
        Part(directory_name(number), build_index(schema, found))
        for number, found in reports_by_partition(reports).items()
    ]


def _check_seen(location: Location, parts: Sequence[Part]) -> None:
    indexes = [INDEX_NAME, *(posixpath.join(part.directory, INDEX_NAME) for part in parts)]
    check_seen(location, [shard for part in parts for shard in part.shards], indexes)


def _publish(job: PartitionJob, location: Location, parts: Sequence[Part], merged: bool) -> None:
    won = {shard.stored.basename for part in parts for shard in part.shards}
    for name in shards_of(job.job, location.list_names()):
        if name not in won:
            location.remove(name)
    try:
        map_files(partial(_write_part, job, location), parts)
        if merged:
            write_index(location, merge_parts(parts, location.url), retry=job.retry)
    except BaseException:
        for name in (INDEX_NAME, *(posixpath.join(p.directory, INDEX_NAME) for p in parts)):
            location.remove(name)
        raise


def _write_part(job: PartitionJob, location: Location, part: Part) -> None:
    write_index(location.child(part.directory), part.index, retry=job.retry)
