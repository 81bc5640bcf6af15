"""Open a Parquet dataset: list its files and read their footers."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from mdstorm_backend.cache.options import CacheOptions
from mdstorm_backend.parquet.column_plan import plan_columns, with_statistics
from mdstorm_backend.parquet.common_schema import common_schema
from mdstorm_backend.parquet.footers import Footer, read_footers
from mdstorm_backend.parquet.hive_partitions import partition_field, partition_values
from mdstorm_backend.parquet.listing import find_files
from mdstorm_backend.parquet.parquet_dataset import Contents, ParquetDataset
from mdstorm_backend.parquet.row_groups import ParquetFileInfo, RowGroup


def open_parquet(
    urls: str | Sequence[str],
    *,
    storage_options: dict[str, Any] | None = None,
    filesystem: Any = None,
    cache: CacheOptions | None = None,
) -> ParquetDataset:
    """Open Parquet files for reading.

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

    Raises
    ------
    DatasetNotFoundError
        If there is nothing, or no file.
    CorruptDatasetError
        If a file is not a Parquet file, or its columns are not those of the others.
    InvalidArgumentError
        If there is no URL, or they lead to different storages.
    CredentialsError, StorageError
        If the storage denies access or fails.
    """
    found = find_files(urls, storage_options, filesystem)
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
    contents = Contents(
        found.url,
        found.location,
        found.files,
        tuple(row_groups),
        with_statistics(schema, footers, row_groups, found.url),
        pa.schema(fields, stored.metadata),
        partition_columns,
        left_out,
        _fingerprint(found.files, footers),
    )
    return ParquetDataset(contents, cache)


def _fingerprint(files: Sequence[ParquetFileInfo], footers: Sequence[Footer]) -> str:
    text = "\n".join(
        f"{file.name} {file.size} {file.identity} {footer.rows}"
        for file, footer in zip(files, footers, strict=True)
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]
