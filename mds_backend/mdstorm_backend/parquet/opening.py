"""Open a Parquet dataset: list its files and read their footers."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from mdstorm_backend.base.pools import map_files
from mdstorm_backend.cache.cache_options import CacheOptions
from mdstorm_backend.parquet.column_plan import plan_columns, with_statistics
from mdstorm_backend.parquet.common_schema import common_schema
from mdstorm_backend.parquet.footers import Footer, read_footers, read_metadata
from mdstorm_backend.parquet.hive_partitions import partition_field, partition_values
from mdstorm_backend.parquet.listing import FoundFiles, find_files, locate, shown
from mdstorm_backend.parquet.parquet_dataset import ParquetDataset
from mdstorm_backend.parquet.row_groups import ParquetFileInfo, RowGroup
from mdstorm_backend.parquet.table_opening import open_table
from mdstorm_backend.storage import Location
from mdstorm_backend.tables import (
    AsOf,
    check_as_of,
    check_no_part_of_a_table,
    is_delta,
    may_be_part_of_a_table,
)


def open_parquet(
    urls: str | Sequence[str],
    *,
    storage_options: dict[str, Any] | None = None,
    filesystem: Any = None,
    cache: CacheOptions | None = None,
    as_of: AsOf | None = None,
    keep_row_groups: bool = False,
    may_be_unfinished: bool = False,
    only: Collection[str] | None = None,
) -> ParquetDataset:
    """Open Parquet files, or a Delta table, for reading.

    Parameters
    ----------
    urls : str or sequence of str
        A directory, whose files are read in the order of their paths, those in directories below it
        too, and whose Hive partitions become columns; a file; a pattern with ``*``, ``?`` or
        ``[…]``; or several of them, which are read in that order and have no partition columns.
        Files and directories whose names begin with ``_`` or ``.`` are ignored. Each is a URL or a
        local path.
    storage_options : dict, optional
        Options of the fsspec file system.
    filesystem : fsspec or pyarrow file system, optional
        Where to read, whatever the URLs say.
    cache : CacheOptions, optional
        How remote files are cached on this machine.
    as_of : AsOf, optional
        The version of a Delta table; by default the newest one.
    keep_row_groups : bool
        Whether each row group is a shard. Otherwise a small file of a table is one, with all of its
        row groups, if the log says what is in it: its footer need not be read then.
    may_be_unfinished : bool
        Whether to read a directory in which a job of Spark is not seen to have ended.
    only : collection of str, optional
        The files of a directory to read, by their paths in it; by default all.

    Raises
    ------
    DatasetNotFoundError
        If there is nothing, or no file, or no such version of a table.
    CorruptDatasetError
        If a file is not a Parquet file, or its columns are not those of the others.
    InvalidArgumentError
        If there is no URL, they lead to different storages, or `as_of` is given for what has no
        versions.
    UnsupportedTableError
        If the files are some of a table's, are a table that is not read, or a job of Spark has left
        them unfinished.
    MissingDependencyError
        If it is a Delta table, and deltalake is not installed.
    CredentialsError, StorageError
        If the storage denies access or fails.
    """
    locations = locate(urls, storage_options, filesystem)
    if len(locations) == 1 and is_delta(locations[0]):
        table = locations[0]
        return open_table(table, as_of or AsOf(), cache, keep_row_groups=keep_row_groups)
    check_as_of(as_of, shown(locations))
    found = find_files(locations, check=not may_be_unfinished)
    if only is not None:
        found = replace(found, files=tuple(file for file in found.files if file.name in only))
    _check_no_part_of_a_table(found)
    footers = read_footers(found.location, found.files, cache or CacheOptions())
    names = [file.name for file in found.files]
    partitions = partition_values(names, found.url) if found.is_directory else [{} for _ in names]
    partition_columns = tuple(partitions[0])
    file_urls = [found.location.file_url(name) for name in names]
    row_groups = [
        RowGroup(url, name, ordinal, rows, partition, nbytes)
        for url, name, footer, partition in zip(file_urls, names, footers, partitions, strict=True)
        for ordinal, (rows, nbytes) in enumerate(zip(footer.rows, footer.nbytes, strict=True))
    ]
    fields = [partition_field(name, partitions) for name in partition_columns]
    stored = common_schema([footer.schema for footer in footers], file_urls)
    fields += [field for field in stored if field.name not in partition_columns]
    schema, left_out = plan_columns(pa.schema(fields))
    return ParquetDataset(
        found.url,
        found.location,
        found.files,
        tuple(row_groups),
        with_statistics(schema, footers, row_groups, found.url),
        pa.schema(fields, stored.metadata),
        partition_columns,
        left_out,
        _fingerprint(found.files, footers),
        cache,
    )


#: TensorFlow's AutoGraph leaves what has this attribute alone. Readers are opened inside of its
#: functions, too, and what it rewrites takes hundreds of times as long.
open_parquet.autograph_info__ = None  # type: ignore[attr-defined]


def _check_no_part_of_a_table(found: FoundFiles) -> None:
    """Refuse files and partitions of a table, in which rows may be dead."""
    urls = [found.location.file_url(file.name) for file in found.files]
    above = {found.url} if found.is_directory else {url.rpartition("/")[0] for url in urls}
    if found.is_directory and not may_be_part_of_a_table(found.url):
        return
    one = found.location
    directories = (Location(url, one.storage_options, one.filesystem) for url in above)
    check_no_part_of_a_table(found.url, directories)


def _fingerprint(files: Sequence[ParquetFileInfo], footers: Sequence[Footer]) -> str:
    text = "\n".join(
        f"{file.name} {file.size} {file.identity} {footer.rows}"
        for file, footer in zip(files, footers, strict=True)
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_file_metadata(
    dataset: ParquetDataset, files: Sequence[ParquetFileInfo]
) -> list[pq.FileMetaData]:
    """Read the footers of some files of a dataset, several at a time, and keep all of them.

    Raises
    ------
    DatasetNotFoundError, CorruptDatasetError, CredentialsError, StorageError
        If a footer cannot be read.
    """
    options = dataset.cache or CacheOptions()
    return map_files(lambda file: read_metadata(dataset.location, file, options), files)


def has_same_files(dataset: ParquetDataset) -> bool:
    """Whether there are the same files as when the dataset was opened.

    The directory is listed again; names, sizes, and what else the storage tells are compared.

    Raises
    ------
    CredentialsError, StorageError
        If the storage denies access or fails.
    """
    location = dataset.location
    locations = locate(dataset.url, location.storage_options, location.filesystem)
    found = find_files(locations, check=False)
    return found.files == dataset.files
