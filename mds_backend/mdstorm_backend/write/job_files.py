"""Find, keep and remove the files of jobs in the directories that they write to.

A directory is ours if it holds the marker file. Each job puts its id in the names of its shards
and of its records of finished tasks ("notes"), and removes no files of other jobs, except of those
that were killed.
"""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any, TypeAlias

from mdstorm_backend import errors
from mdstorm_backend.base.pools import map_files
from mdstorm_backend.format import EXTENSIONS
from mdstorm_backend.format.index import Index
from mdstorm_backend.format.shard_info import CLAIM_NAME, INDEX_NAME, MARKER_NAME
from mdstorm_backend.storage import Location, seconds_of
from mdstorm_backend.write import directories

if TYPE_CHECKING:
    from mdstorm_backend.cache import CachedDataset

_logger = logging.getLogger(__name__)

#: The name of a shard or of a note of a job, or of a temporary file with which it was written.
_OURS = re.compile(
    rf"part-\d{{5,}}-((?P<job>[0-9a-f]{{8}})-)?(?P<attempt>\d+)\.(\d{{5,}}\.mds(\.({EXTENSIONS}))?|done)"
    r"(\.[0-9a-f]{32}\.tmp)?"
)
#: Temporary files of a process that was killed while writing the index or the marker.
_TEMPORARY = re.compile(rf"({INDEX_NAME}|{MARKER_NAME})\.[0-9a-f]{{32}}\.tmp")
#: Without locks, a job counts as killed after this many seconds without a write.
PATIENCE = 86_400

#: The files of a directory, and fsspec's descriptions of them.
_Files: TypeAlias = Mapping[str, Mapping[str, Any]]


def is_ours(name: str) -> bool:
    """Whether a file is named like a shard or a note of any job."""
    return _OURS.fullmatch(name) is not None


def shards_of(job: str | None, names: Iterable[str], attempt: str | None = None) -> list[str]:
    """Return the shards and notes of a job among `names`, including those in subdirectories.

    All attempts of the job count, unless `attempt` is given.
    """
    matches = [(name, _OURS.fullmatch(name.rpartition("/")[2])) for name in names]
    return [
        name
        for name, match in matches
        if match and match["job"] == job and attempt in (None, match["attempt"])
    ]


def unlisted(location: Location, names: Iterable[str]) -> list[str]:
    """Return the names that the directory's index does not list, or all if there is no index."""
    index = bytes(location.read(INDEX_NAME)) if location.exists(INDEX_NAME) else b""
    return [name for name in names if name.encode() not in index]


def names_in_index(index: bytes, location: Location) -> list[str]:
    """Return the file names of the shards in an index, or an empty list if it cannot be parsed."""
    with suppress(errors.MDStormError):
        shards = Index.from_bytes(index, url=location.url).shards
        return [shard.stored.basename for shard in shards]
    return []


def mark_directory(location: Location) -> bytes:
    """Create the directory and write mdstorm's marker to it.

    Returns
    -------
    bytes
        The content of the marker, which is unique: some file systems have no locks.

    Raises
    ------
    WriteError
        If the directory cannot be created or written to.
    """
    content = f"This directory was made by mdstorm.\nWriter: {secrets.token_hex(8)}\n".encode()
    try:
        location.make_directory()
        location.write(MARKER_NAME, [content])
    except OSError as error:
        raise directories.unwritable(location, error) from error
    return content


def claim_directory(location: Location, *, resumed: str | None = None) -> directories.Claim:
    """Mark and claim a directory, and remove the shards that killed jobs left in it.

    Shards of a dataset in the directory are kept. Without locks, a killed job cannot be
    distinguished from an active one, so nothing is removed until a day after the last write.

    Parameters
    ----------
    location : Location
        The directory, which is created.
    resumed : str, optional
        A conversion that resumes: its finished tasks are kept, as are other conversions that can
        be resumed. By default, these are also removed.

    Raises
    ------
    DatasetExistsError
        If another writer is active.
    WriteError
        If the directory cannot be created or written to.
    """
    is_marked = location.exists(MARKER_NAME)
    files = _marked_files(location) if is_marked else {}  # before the marker is written again
    marker = mark_directory(location)
    claim = directories.Claim(location, None if is_marked else marker)
    try:
        left = unlisted(location, _left_by_jobs(files, resumed)) if files else []
        # The marker has just been written, so its time shows the storage's clock.
        if left and _is_abandoned(files, claim, seconds_of(location.stat(MARKER_NAME))):
            _logger.info("removing %d files of killed jobs from %s", len(left), location.url)
            map_files(location.remove, left)
    except BaseException:
        claim.release()
        raise
    return claim


def _marked_files(location: Location) -> _Files:
    """Return the files in a marked directory, or an empty dictionary if the listing is stale."""
    files = dict(location.list_files())
    return files if MARKER_NAME in files else {}


def _left_by_jobs(names: Iterable[str], resumed: str | None) -> list[str]:
    """Return the names of job files, except the ones that `claim_directory` keeps."""
    jobs = {name: match["job"] for name in names if (match := _OURS.fullmatch(name))}
    if resumed is None:
        return list(jobs)
    records = [name for name in jobs if name.endswith(".done")]
    conversions = {jobs[name] for name in records}
    finished = {name.removesuffix(".done") for name in records}
    return [
        name
        for name, job in jobs.items()
        if job not in conversions or (job == resumed and name.partition(".")[0] not in finished)
    ]


def _is_abandoned(files: _Files, claim: directories.Claim, now: float) -> bool:
    """Whether no job is writing to a claimed directory, so that its leftovers may be removed.

    Parameters
    ----------
    files : mapping
        The files of the directory.
    claim : Claim
        The claim on the directory. Without locks, the files' ages decide.
    now : float
        The time, in seconds since the epoch.
    """
    return claim.is_exclusive or now - _last_write(files) >= PATIENCE


def _last_write(files: _Files) -> float:
    """Return when a job last wrote to a directory, in seconds since the epoch."""
    return max(seconds_of(info) for name, info in files.items() if name != CLAIM_NAME)


def clean_up(
    location: Location, claim: directories.Claim, job: str, attempt: str | None = None
) -> None:
    """Remove the files of a failed job or attempt, and the marker unless another job needs it.

    Shards that a published index lists are kept: runs of the same conversion use the same names.
    The job's error is being raised, so others are only logged.
    """
    with directories.cleaning_up(location):
        for name in unlisted(location, shards_of(job, location.list_names(), attempt)):
            location.remove(name)
        left = location.list_names()
        unused = INDEX_NAME not in left and not any(map(is_ours, left))
        if unused and claim.is_only_one():
            for name in (*filter(_TEMPORARY.fullmatch, left), CLAIM_NAME, MARKER_NAME):
                location.remove(name)
            location.remove_directory_if_empty()


def remove_temporary(location: Location) -> None:
    """Remove temporary files of processes killed while writing the index or the marker."""
    for name in filter(_TEMPORARY.fullmatch, location.list_matches("*.tmp")):
        location.remove(name)


def remove_dataset(location: Location) -> list[str]:
    """Remove the files that mdstorm wrote to a directory: index first, then shards and marker.

    Returns
    -------
    list of str
        Names of other files, which are kept together with the directory. In a directory without our
        marker, these are all files.
    """
    names = location.list_names()
    if MARKER_NAME not in names:
        return names
    known = set(names)
    if location.is_in_file_tree:  # a mount's listing may be stale
        with suppress(OSError):
            known.update(names_in_index(bytes(location.read(INDEX_NAME)), location))
    ours = [n for n in known if is_ours(n) or _TEMPORARY.fullmatch(n)]
    ours = [INDEX_NAME, *ours, CLAIM_NAME, MARKER_NAME]
    for name in ours:
        location.remove(name)
    rest = sorted(set(names).difference(ours))
    if not rest:
        location.remove_directory_if_empty()
    return rest


def list_unfinished(parent: str, names: re.Pattern[str]) -> Iterator[CachedDataset]:
    """Yield directories in which a killed job left an unfinished dataset.

    Such directories have our marker, no index, and no active writer.

    Parameters
    ----------
    parent : str
        Path or URL of the directory that contains them.
    names : re.Pattern
        Pattern of their names.
    """
    location = Location.of(parent)
    found = [location.child(name) for name in location.list_matches("*") if names.fullmatch(name)]
    begun = map_files(lambda directory: not directory.exists(INDEX_NAME), found)
    for directory, is_begun in zip(found, begun, strict=True):
        if is_begun and (left := _left_in(directory)):
            yield left


def _left_in(location: Location) -> CachedDataset | None:
    from mdstorm_backend.cache import CachedDataset  # imported here: executors do not need it

    with suppress(errors.WriteError, OSError):  # a writer is active, or has removed the directory
        files = dict(location.list_files())
        if INDEX_NAME in files or MARKER_NAME not in files:
            return None
        claim = directories.Claim(location)
        claim.release()
        if not _is_abandoned(files, claim, time.time()):
            return None
        sizes = [info["size"] for name, info in files.items() if name.startswith("part-")]
        directory = location.path if location.is_in_file_tree else location.url
        when = datetime.fromtimestamp(_last_write(files), timezone.utc)
        return CachedDataset("unfinished job", directory, len(sizes), sum(sizes), when)
    return None
