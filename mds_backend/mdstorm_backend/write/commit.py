"""Commit a dataset by writing its index.

A directory is a dataset once it holds an index, which is written last.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from mdstorm_backend import errors
from mdstorm_backend.base.pools import map_files
from mdstorm_backend.format import stored_schema
from mdstorm_backend.format.index import Index
from mdstorm_backend.format.schema import FORMAT_VERSION, Column, Schema
from mdstorm_backend.format.shard_info import INDEX_NAME, MARKER_NAME, ShardInfo
from mdstorm_backend.storage import Location
from mdstorm_backend.write import directories, full_shard, job_files

_logger = logging.getLogger(__name__)


def publish(
    location: Location,
    schema: Schema,
    reports: Sequence[full_shard.ShardReport],
    job: str | None = None,
    extra: Mapping[str, Any] | None = None,
    attempt: str | None = None,
    replaced: bytes = b"",
) -> Index:
    """Publish the shards in `reports`, in that order, as the directory's dataset.

    Other shards of the same job, from attempts that are not committed, and its notes are removed;
    with `attempt`, only the files of that attempt. `extra` holds further entries for the index,
    next to the schema. `replaced` is the result of `index_to_replace`; that dataset is removed once
    the new index is written.

    Raises
    ------
    WriteError, DatasetExistsError
        See `check_seen`.
    """
    infos = [report.info for report in reports]
    names = {info.stored.basename for info in infos}
    sizes = check_seen(location, infos, [] if replaced else [INDEX_NAME])
    if replaced and index_to_replace(location, overwrite=True) != replaced:
        raise _published_meanwhile(location)
    index = build_index(schema, reports)
    index = replace(index, extra={**(extra or {}), **index.extra})
    if MARKER_NAME not in sizes:  # without locks, a failed job may have removed the marker
        job_files.mark_directory(location)
    write_index(location, index)
    ours = set(job_files.shards_of(job, sizes, attempt))
    if replaced:
        # If no other job can be writing, also remove the files of killed jobs.
        left = () if attempt is not None else sizes
        listed = job_files.names_in_index(replaced, location)
        ours.update(filter(job_files.is_ours, (*listed, *left)))
    # The notes on these shards, some of which an earlier attempt may have written.
    records = {f"{name.partition('.')[0]}.done" for name in names}
    if attempt is None or not location.is_in_file_tree:  # a mount's listing may omit new notes
        records.intersection_update(sizes)
    ours |= records
    for name in ours - names:
        location.remove(name)
    _logger.info("wrote %d shards to %s", len(names), location.url)
    return index


def index_to_replace(location: Location, *, overwrite: bool) -> bytes:
    """Return the index that `publish` will replace, or empty bytes if there is no dataset.

    Raises
    ------
    DatasetExistsError
        If there is a dataset, and it may not be replaced or was written by another program.
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
        f"another job has written a dataset to {location.url} in the meantime. That dataset was "
        "kept; write to a different directory"
    )


def check_seen(
    location: Location, shards: Iterable[ShardInfo], indexes: Iterable[str]
) -> Collection[str]:
    """Check that all shards exist with the right sizes, and that no other dataset was published.

    Parameters
    ----------
    shards : iterable of ShardInfo
        The shards, with file names relative to `location`.
    indexes : iterable of str
        Names of the index files that are about to be written.

    Returns
    -------
    collection of str
        Names of the files in the directory.

    Raises
    ------
    WriteError
        If a shard is missing: executors wrote to their own disks, or it was removed.
    DatasetExistsError
        If another job published a dataset in the meantime.
    """
    expected = [shard.stored for shard in shards]
    sizes: dict[str, int | None] = dict(location.list_sizes())
    # Listings of mounted remote storage may omit new files and include removed ones.
    unlisted = {f.basename: f.bytes for f in expected if sizes.get(f.basename) != f.bytes}
    sizes.update(zip(unlisted, map_files(location.size, unlisted), strict=True))
    missing = [name for name, size in unlisted.items() if sizes[name] != size]
    if missing:
        raise errors.WriteError(
            f"{len(missing)} of {len(expected)} shards that were written to {location.url} "
            f"cannot be seen from here ({missing[0]} is the first). If Spark executors wrote them, "
            "choose a directory that the driver and all executors share, such as a mounted volume "
            "or an object store. Otherwise another process has removed them: write to a directory "
            "that no other process uses"
        )
    if any(name in sizes and location.exists(name) for name in indexes):
        raise _published_meanwhile(location)
    return sizes.keys()


def build_index(schema: Schema | None, reports: Sequence[full_shard.ShardReport]) -> Index:
    """Return the index of the shards in `reports`, in that order, with null counts.

    Without a schema, the index holds only the entries of the MDS format.
    """
    shards = tuple(report.info for report in reports)
    columns = [_with_counts(column, reports) for column in schema or ()]
    return Index(shards, schema_extra(shards, columns))


def schema_extra(shards: Iterable[ShardInfo], columns: Sequence[Column]) -> dict[str, Any]:
    """Return the index entries that describe the shards' schema; empty if there are no columns."""
    if not columns:
        return {}
    return {
        "version": FORMAT_VERSION,
        "num_rows": sum(shard.samples for shard in shards),
        "columns": Schema(tuple(columns)).to_json(),
    }


def write_index(
    location: Location, index: Index | bytes, *, retry: int = directories.DEFAULT_RETRY
) -> None:
    """Write the index, which makes the directory a dataset, and read it back to verify it.

    Raises
    ------
    WriteError
        If the index cannot be written, or reads back differently.
    """
    content = index.to_bytes() if isinstance(index, Index) else index
    try:
        directories.retried(location, lambda: location.write(INDEX_NAME, [content]), retry)
        found = directories.retried(location, lambda: location.read(INDEX_NAME), retry)
    except errors.CredentialsError:
        raise
    except OSError as error:
        raise directories.unwritten(location, INDEX_NAME, error) from error
    if bytes(found) != content:
        raise errors.WriteError(
            f"{location.file_url(INDEX_NAME)} does not read back as it was written. Another "
            "process is writing to the same directory, or its storage is faulty: choose a "
            "different directory"
        )
    if location.is_local_disk:
        job_files.remove_temporary(location)


def _with_counts(column: Column, reports: Sequence[full_shard.ShardReport]) -> Column:
    nulls = [report.null_counts.get(column.name, 0) for report in reports]
    # A shard in which all of the column's values are null does not determine the column's form.
    encodings = {
        report.info.column_encodings[report.info.column_names.index(column.name)]
        for report, count in zip(reports, nulls, strict=True)
        if count < report.info.samples or not any(nulls)
    }
    return replace(
        stored_schema.with_form(column, encodings),
        null_count=sum(nulls),
        element_null_count=sum(
            report.element_null_counts.get(column.name, 0) for report in reports
        ),
    )
