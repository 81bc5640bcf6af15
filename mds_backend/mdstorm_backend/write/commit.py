"""Commit a dataset by writing its index, or remove it, also what a killed job has left.

A directory is ours if it holds the marker file, and a dataset once it holds an index, which is
written last. Until then nothing in it counts. Each job names its shards, and notes of what it has
finished, after itself, and removes no others than those.
"""

from __future__ import annotations

import logging
import posixpath
import re
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, Any

from mdstorm_backend import errors
from mdstorm_backend.base.threads import map_files
from mdstorm_backend.format.compression import EXTENSIONS
from mdstorm_backend.format.index import INDEX_NAME, Index, ShardInfo
from mdstorm_backend.format.schema import FORMAT_VERSION, Column, Schema
from mdstorm_backend.format.shard_info import CLAIM_NAME, MARKER_NAME
from mdstorm_backend.format.stored_schema import with_form
from mdstorm_backend.storage import Location, seconds_of
from mdstorm_backend.write import directories
from mdstorm_backend.write.shard_buffer import ShardReport

if TYPE_CHECKING:
    from mdstorm_backend.cache import CachedDataset

_logger = logging.getLogger(__name__)

_OURS = re.compile(
    rf"part-\d{{5,}}-((?P<job>[0-9a-f]{{8}})-)?(?P<attempt>\d+)\.(\d{{5,}}\.mds(\.({EXTENSIONS}))?|done)"
    r"(\.[0-9a-f]{32}\.tmp)?"
)


#: What a process that was killed while it wrote one of the other files leaves behind.
_TEMPORARY = re.compile(rf"({INDEX_NAME}|{MARKER_NAME})\.[0-9a-f]{{32}}\.tmp")


def mark_directory(location: Location) -> None:
    """Create the directory and our marker in it.

    Raises
    ------
    WriteError
        If the directory cannot be made or written to.
    """
    try:
        location.make_directory()
        location.write(MARKER_NAME, [b"This directory was made by mdstorm.\n"])
    except OSError as error:
        raise directories.unwritable(location, error) from error


def commit(
    location: Location,
    schema: Schema,
    reports: Sequence[ShardReport],
    job: str | None = None,
    extra: Mapping[str, Any] | None = None,
    attempt: str | None = None,
    replaced: bytes = b"",
) -> Index:
    """Publish the shards of `reports`, in that order, as the dataset of the directory.

    Shards of attempts of the same job that lost, and its notes, are removed; of an `attempt`, only
    its own. `extra` are further entries for the index, beside the schema. `replaced` is what
    `index_to_replace` returned; the dataset of that index goes once the new one is there.

    Raises
    ------
    WriteError, DatasetExistsError
        As `check_seen`.
    """
    infos = [report.info for report in reports]
    names = {info.stored.basename for info in infos}
    sizes = check_seen(location, infos, [] if replaced else [INDEX_NAME])
    if replaced and index_to_replace(location, overwrite=True) != replaced:
        raise _published_meanwhile(location)
    index = build_index(schema, reports)
    index = replace(index, extra={**(extra or {}), **index.extra})
    write_index(location, index)
    ours = set(shards_of(job, sizes, attempt))
    if replaced:
        # Where nobody else writes, also what killed jobs have left.
        left = () if attempt is not None else sizes
        ours.update(filter(is_ours, (*_names_in(replaced, location), *left)))
    if attempt is not None and location.is_in_file_tree:  # a mount may not list the latest notes
        ours.update(f"{name.partition('.')[0]}.done" for name in names)
    for name in ours - names:
        location.remove(name)
    return index


def index_to_replace(location: Location, *, overwrite: bool) -> bytes:
    """Return the index of the dataset in a directory, for `commit`; empty if there is none.

    Raises
    ------
    DatasetExistsError
        If there is one, and it may not be replaced, or was written by others.
    """
    if not location.exists(INDEX_NAME):
        return b""
    if not overwrite:
        raise errors.DatasetExistsError(
            f"Directory is not empty: {location.url} already holds a dataset. Choose another "
            "directory, or replace it with overwrite=True (--overwrite)"
        )
    if not location.exists(MARKER_NAME):
        raise errors.DatasetExistsError(
            f"{location.url} holds a dataset that was written by neither a converter nor `mdstorm "
            "convert`, so it is not replaced: remove it yourself, or choose another directory"
        )
    return bytes(location.read(INDEX_NAME))


def _published_meanwhile(location: Location) -> errors.DatasetExistsError:
    return errors.DatasetExistsError(
        f"another job has written a dataset to {location.url} in the meantime. It is left as it "
        "is; write to another directory"
    )


def check_seen(
    location: Location, shards: Iterable[ShardInfo], indexes: Iterable[str]
) -> Collection[str]:
    """Make sure that shards are where they were reported, and that no other dataset is.

    Parameters
    ----------
    shards : iterable of ShardInfo
        The shards, their files named relative to `location`.
    indexes : iterable of str
        Names of the index files that are going to be written.

    Returns
    -------
    collection of str
        Names of the files that are there.

    Raises
    ------
    WriteError
        If a shard is not there: executors wrote to disks of their own, or it was removed.
    DatasetExistsError
        If another job has published a dataset there in the meantime.
    """
    expected = [shard.stored for shard in shards]
    sizes: dict[str, int | None] = dict(location.list_sizes())
    # Mounts of remote storage may list neither what was just written nor what was just removed.
    unlisted = {f.basename: f.bytes for f in expected if sizes.get(f.basename) != f.bytes}
    sizes.update(zip(unlisted, map_files(location.size, unlisted), strict=True))
    missing = [name for name, size in unlisted.items() if sizes[name] != size]
    if missing:
        raise errors.WriteError(
            f"{len(missing)} of {len(expected)} shards that were written to {location.url} "
            f"cannot be seen from here ({missing[0]} is the first). If Spark executors wrote them, "
            "choose a directory that the driver and all executors share, such as a mounted volume "
            "or an object store. Otherwise another process has removed them: write to a directory "
            "of your own"
        )
    if any(name in sizes and location.exists(name) for name in indexes):
        raise _published_meanwhile(location)
    return sizes.keys()


def build_index(schema: Schema | None, reports: Sequence[ShardReport]) -> Index:
    """Return the index of the shards of `reports`, in that order, with their nulls counted.

    Without a schema it says nothing beyond the format.
    """
    shards = tuple(report.info for report in reports)
    if schema is None:
        return Index(shards, {})
    columns = tuple(_with_counts(column, reports) for column in schema)
    extra = {
        "version": FORMAT_VERSION,
        "num_rows": sum(info.samples for info in shards),
        "columns": Schema(columns).to_json(),
    }
    return Index(shards, extra)


def write_index(
    location: Location, index: Index | bytes, *, retry: int = directories.DEFAULT_RETRY
) -> None:
    """Write the index, which makes the directory a dataset, and read it back.

    Raises
    ------
    WriteError
        If it cannot be written, or reads back as something else.
    """
    content = index.to_bytes() if isinstance(index, Index) else index
    try:
        directories.retried(location, partial(location.write, INDEX_NAME, [content]), retry)
        found = directories.retried(location, partial(location.read, INDEX_NAME), retry)
    except errors.CredentialsError:
        raise
    except OSError as error:
        raise errors.WriteError(
            f"{location.file_url(INDEX_NAME)} could not be written ({error!r}), and without it "
            "nothing there counts as a dataset. Check the storage, and try again"
        ) from error
    if bytes(found) != content:
        raise errors.WriteError(
            f"{location.file_url(INDEX_NAME)} does not read back as it was written. Another "
            "process writes to the same directory, or its storage is at fault: choose another "
            "directory"
        )
    if location.is_local_disk:
        for name in filter(_TEMPORARY.fullmatch, location.list_matches(f"{INDEX_NAME}.*.tmp")):
            location.remove(name)


def abandon(location: Location, job: str, attempt: str | None = None) -> None:
    """Remove what a failed job, or attempt, has written, and the marker unless others need it.

    Shards that a published index names stay: runs of one conversion give theirs the same names.
    """
    published = bytes(location.read(INDEX_NAME)) if location.exists(INDEX_NAME) else b""
    for name in shards_of(job, location.list_names(), attempt):
        if name.encode() not in published:
            location.remove(name)
    left = location.list_names()
    if INDEX_NAME not in left and not any(map(is_ours, left)):
        remove_dataset(location)


def clean_up(location: Location, job: str, attempt: str | None = None) -> None:
    """Call `abandon` for a job whose error is being raised: a failure is only logged."""
    try:
        abandon(location, job, attempt)
    except Exception:
        _logger.warning("could not remove the shards of a failed job", exc_info=True)


def remove_dataset(location: Location) -> list[str]:
    """Remove what mdstorm wrote to a directory: index first, then shards and marker.

    Returns
    -------
    list of str
        Names of files that are not ours; they stay, and the directory with them. In a directory
        without our marker that is every file.
    """
    names = location.list_names()
    if MARKER_NAME not in names:
        return names
    known = set(names)
    if location.is_in_file_tree:  # a mount may remember an older listing
        with suppress(OSError):
            known.update(_names_in(bytes(location.read(INDEX_NAME)), location))
    ours = [n for n in known if is_ours(n) or _TEMPORARY.fullmatch(n)]
    ours = [INDEX_NAME, *ours, CLAIM_NAME, MARKER_NAME]
    for name in ours:
        location.remove(name)
    rest = sorted(set(names).difference(ours))
    if not rest:
        location.remove_directory_if_empty()
    return rest


def _names_in(index: bytes, location: Location) -> list[str]:
    """Return the names of the shards in an index; none if it cannot be parsed."""
    with suppress(errors.MDStormError):
        shards = Index.from_bytes(index, url=location.url).shards
        return [shard.stored.basename for shard in shards]
    return []


def is_ours(name: str) -> bool:
    """Whether a file is named like a shard, or a note, of a job."""
    return _OURS.fullmatch(name) is not None


def shards_of(job: str | None, names: Iterable[str], attempt: str | None = None) -> list[str]:
    """Which of `names` are shards and notes that a job has written, also in directories below.

    Those of all attempts, unless one is given.
    """
    found = [(name, _OURS.fullmatch(posixpath.basename(name))) for name in names]
    return [
        name
        for name, match in found
        if match and match["job"] == job and attempt in (None, match["attempt"])
    ]


def _with_counts(column: Column, reports: Sequence[ShardReport]) -> Column:
    nulls = [report.null_counts.get(column.name, 0) for report in reports]
    encodings = {
        report.info.column_encodings[report.info.column_names.index(column.name)]
        for report, count in zip(reports, nulls, strict=True)
        if count < report.info.samples or not any(nulls)  # nulls alone say nothing of arrays
    }
    return replace(
        with_form(column, encodings),
        null_count=sum(nulls),
        element_null_count=sum(
            report.element_null_counts.get(column.name, 0) for report in reports
        ),
    )


#: Where there are no locks, a job that has written nothing for so many seconds was killed.
_PATIENCE = 86_400


def list_unfinished(parent: str, names: re.Pattern[str]) -> Iterator[CachedDataset]:
    """Find directories in which a job has begun to write a dataset that nobody finishes.

    They have our marker, no index, and no writer.

    Parameters
    ----------
    parent : str
        Path or URL of the directory that they are in.
    names : re.Pattern
        What their names are like.
    """
    location = Location.of(parent)
    found = [location.child(name) for name in location.list_matches("*") if names.fullmatch(name)]
    begun = map_files(lambda directory: not directory.exists(INDEX_NAME), found)
    for directory in compress(found, begun):
        if left := _left_in(directory):
            yield left


def remove_unfinished(location: Location) -> None:
    """Remove the shards that a job has left in a directory which nobody finishes."""
    if _left_in(location):
        map_files(location.remove, [name for name in location.list_names() if is_ours(name)])


def _left_in(location: Location) -> CachedDataset | None:
    from mdstorm_backend.cache import CachedDataset  # which executors do without

    with suppress(errors.DatasetExistsError, OSError):  # a writer has it, or has removed it
        files = dict(location.list_files())
        if INDEX_NAME in files or MARKER_NAME not in files:
            return None
        last = max(seconds_of(info) for name, info in files.items() if name != CLAIM_NAME)
        if location.is_local_disk:
            directories.check_free(location)
        elif time.time() - last < _PATIENCE:
            return None
        sizes = [info["size"] for name, info in files.items() if name.startswith("part-")]
        directory = location.path if location.is_in_file_tree else location.url
        when = datetime.fromtimestamp(last, timezone.utc)
        return CachedDataset("unfinished job", directory, len(sizes), sum(sizes), when)
    return None
