"""Open a Parquet dataset, or a table: list its files and read their footers.

The live files and rows of a table come from its log, the values from Parquet. If the log records
how many rows a small file has, its footer is not read: the whole file is one shard. Other files
are opened like those of a directory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from mdstorm_backend.base.threads import map_files
from mdstorm_backend.cache import CacheOptions
from mdstorm_backend.errors import CorruptDatasetError
from mdstorm_backend.parquet import listing
from mdstorm_backend.parquet.columns import StoredColumns, columns_of, common_schema
from mdstorm_backend.parquet.footers import Footer, ParquetFileInfo, RowGroup, read_footers
from mdstorm_backend.parquet.parquet_dataset import ParquetDataset
from mdstorm_backend.storage import Location
from mdstorm_backend.tables.delta import check_as_of, is_absolute, is_delta, open_delta
from mdstorm_backend.tables.iceberg import is_iceberg, open_iceberg
from mdstorm_backend.tables.layouts import check_no_part_of_a_table
from mdstorm_backend.tables.snapshot import AsOf, DeadRows, LiveFile, TableSnapshot


def open_parquet(
    urls: str | Sequence[str],
    *,
    storage_options: dict[str, Any] | None = None,
    filesystem: Any = None,
    cache: CacheOptions | None = None,
    as_of: AsOf | None = None,
    keep_row_groups: bool = False,
    may_be_unfinished: bool = False,
) -> ParquetDataset:
    """Open Parquet files, or a Delta or Iceberg table, for reading.

    Parameters
    ----------
    urls : str or sequence of str
        A directory, whose files at any depth are read in the order of their paths, and whose Hive
        partitions become columns; a file; a pattern with ``*``, ``?`` or ``[…]``; or a list of
        these, read in that order without partition columns. Files and directories whose names
        begin with ``_`` or ``.`` are ignored. Each is a URL or a local path.
    storage_options : dict, optional
        Options of the fsspec file system.
    filesystem : fsspec or pyarrow file system, optional
        File system to read from, whatever the scheme of the URLs.
    cache : CacheOptions, optional
        How remote files are cached on this machine.
    as_of : AsOf, optional
        The version of a table; by default the newest one.
    keep_row_groups : bool
        Whether each row group is a shard. Otherwise a small file of a table is one shard, with all
        of its row groups, if the log describes it, so that its footer need not be read.
    may_be_unfinished : bool
        Whether to read a directory in which a Spark job may not have finished.

    Raises
    ------
    DatasetNotFoundError
        If a URL does not exist or has no files, or a table has no such version.
    CorruptDatasetError
        If a file is not a Parquet file, or its columns do not match those of the others.
    InvalidArgumentError
        If there is no URL, URLs are on different storages, or `as_of` is given for files that are
        not a table.
    UnsupportedTableError
        If the files are part of a table, are a table of an unsupported kind, or were left
        unfinished by a Spark job.
    MissingDependencyError
        If the URL is a table, and the library that reads its log is not installed.
    CredentialsError, StorageError
        If the storage denies access or fails.
    """
    locations = listing.locate(urls, storage_options, filesystem)
    if len(locations) == 1:
        kinds = map_files(lambda is_table: is_table(locations[0]), (is_delta, is_iceberg))
        for is_one, open_one in zip(kinds, (open_delta, open_iceberg), strict=True):
            if is_one:
                table = open_one(locations[0], as_of or AsOf())
                return open_table(locations[0], table, cache, keep_row_groups=keep_row_groups)
    check_as_of(as_of, listing.shown(locations))
    found = listing.find_files(locations, check=not may_be_unfinished)
    check_no_part_of_a_table(
        found.url, found.location, None if found.is_directory else [f.name for f in found.files]
    )
    footers = read_footers(found.location, found.files, cache or CacheOptions())
    names = [file.name for file in found.files]
    partitions = (
        listing.partition_values(names, found.url) if found.is_directory else [{} for _ in names]
    )
    partition_columns = tuple(partitions[0])
    file_urls = [found.location.file_url(name) for name in names]
    row_groups = [
        RowGroup(url, name, ordinal, rows, partition, nbytes)
        for url, name, footer, partition in zip(file_urls, names, footers, partitions, strict=True)
        for ordinal, (rows, nbytes) in enumerate(zip(footer.rows, footer.nbytes, strict=True))
    ]
    fields = [listing.partition_field(name, partitions) for name in partition_columns]
    stored = common_schema([footer.schema for footer in footers], file_urls)
    fields += [field for field in stored if field.name not in partition_columns]
    arrow = pa.schema(fields, stored.metadata)
    schema, left_out = columns_of(arrow, footers, row_groups, found.url)
    return ParquetDataset(
        found.url,
        found.location,
        found.files,
        tuple(row_groups),
        schema,
        arrow,
        partition_columns,
        left_out,
        _fingerprint(found.files, footers),
        cache,
    )


#: TensorFlow's AutoGraph does not rewrite functions with this attribute. Readers may be opened
#: inside its functions, and rewritten code takes hundreds of times as long.
open_parquet.autograph_info__ = None  # type: ignore[attr-defined]


def _fingerprint(files: Sequence[ParquetFileInfo], footers: Sequence[Footer]) -> str:
    text = "\n".join(
        f"{file.name} {file.size} {file.identity} {footer.rows}"
        for file, footer in zip(files, footers, strict=True)
    )
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def has_same_files(dataset: ParquetDataset) -> bool:
    """Whether the dataset still has the files that it had when it was opened.

    The directory is listed again; names, sizes, modification times and tags are compared.

    Raises
    ------
    CredentialsError, StorageError
        If the storage denies access or fails.
    """
    location = dataset.location
    locations = listing.locate(dataset.url, location.storage_options, location.filesystem)
    found = listing.find_files(locations, check=False)
    return found.files == dataset.files


#: Larger files are read row group by row group.
_MOST_BYTES_OF_A_SHARD = 32 << 20
#: Approximate ratio of the size of the values to that of the file.
_EXPANSION = 3


def open_table(
    location: Location, table: TableSnapshot, cache: CacheOptions | None, *, keep_row_groups: bool
) -> ParquetDataset:
    """Open the files of a table; for arguments and errors see `open_parquet`."""
    base, infos = _located(location, table)
    arrow = pa.schema([pa.field(f.name, f.type, nullable=f.nullable) for f in table.fields])
    fields = {field.name: field for field in table.fields}
    is_whole = [not keep_row_groups and _is_described(file, table) for file in table.files]
    read = [info for info, whole in zip(infos, is_whole, strict=True) if not whole]
    found = iter(_read_footers(base, read, table, StoredColumns(arrow, fields), cache))
    footers = [
        _footer_of_log(file, arrow) if whole else next(found)
        for file, whole in zip(table.files, is_whole, strict=True)
    ]
    row_groups = tuple(
        group
        for file, info, footer, whole in zip(table.files, infos, footers, is_whole, strict=True)
        for group in _row_groups(file, info.name, base.file_url(info.name), footer, whole=whole)
    )
    schema, left_out = columns_of(arrow, footers, row_groups, location.url)
    return ParquetDataset(
        location.url,
        base,
        infos,
        row_groups,
        schema,
        arrow,
        table.partition_columns,
        left_out,
        _table_fingerprint(table, infos, row_groups),
        cache,
        fields,
        table.version,
    )


def _located(
    location: Location, table: TableSnapshot
) -> tuple[Location, tuple[ParquetFileInfo, ...]]:
    """Return a directory that holds all files of a table, and the files relative to it."""
    if not any(is_absolute(file.path) for file in table.files):
        base, names = location, [file.path for file in table.files]
    else:  # a shallow clone, which refers to files of another table
        found = [
            Location.of(
                file.path if is_absolute(file.path) else location.file_url(file.path),
                location.storage_options,
            )
            for file in table.files
        ]
        listing.check_one_storage([location, *found])
        base = listing.common_directory([one.url for one in found], location)
        names = [one.url[len(base.url) + 1 :] for one in found]
    infos = tuple(
        ParquetFileInfo(name, file.size, str(file.modified))
        for name, file in zip(names, table.files, strict=True)
    )
    return base, infos


def _is_described(file: LiveFile, table: TableSnapshot) -> bool:
    """Whether a file is small enough for one shard, and described well enough by the log.

    The log lacks the lengths of arrays, which decide if TensorFlow gets dense or ragged tensors.
    """
    return (
        file.num_rows is not None
        and file.size <= _MOST_BYTES_OF_A_SHARD
        and not any(pa.types.is_list(field.type) for field in table.fields)
    )


def _footer_of_log(file: LiveFile, arrow: pa.Schema) -> Footer:
    assert file.num_rows is not None
    return Footer(arrow, (file.num_rows,), (file.size * _EXPANSION,), dict(file.nulls), {})


def _read_footers(
    base: Location,
    infos: Sequence[ParquetFileInfo],
    table: TableSnapshot,
    stored: StoredColumns,
    cache: CacheOptions | None,
) -> list[Footer]:
    """Read the footers of files of a table, with the table's column names."""
    if not infos:
        return []
    footers = read_footers(base, infos, cache or CacheOptions(), table.version)
    columns = [f.name for f in table.fields if f.name not in table.partition_columns]
    return [
        _renamed(footer, stored, columns, base.file_url(info.name))
        for footer, info in zip(footers, infos, strict=True)
    ]


def _renamed(footer: Footer, stored: StoredColumns, columns: Sequence[str], url: str) -> Footer:
    names = stored.names_in(footer.schema, columns, url)
    nulls: dict[str, int | None] = {
        name: footer.nulls[place] for name, place in names.items() if place in footer.nulls
    }
    nulls.update({name: sum(footer.rows) for name in columns if name not in names})
    lengths = {
        name: footer.lengths[place] for name, place in names.items() if place in footer.lengths
    }
    return Footer(stored.schema, footer.rows, footer.nbytes, nulls, lengths)


def _row_groups(
    file: LiveFile, name: str, url: str, footer: Footer, *, whole: bool
) -> Iterator[RowGroup]:
    """Yield the row groups of a file that have live rows."""
    dead = file.dead if file.dead is not None and len(file.dead) else None
    stored = sum(footer.rows)
    if dead is not None and dead[-1] >= stored:
        raise CorruptDatasetError(
            f"{url} holds {stored} rows, but row {dead[-1]} of it is deleted. Copy the "
            "table again, or open another version",
            url=url,
        )
    first = 0
    for i, rows in enumerate(footer.rows):
        inside = None if dead is None else _between(dead, first, first + rows)
        live = rows - (0 if inside is None else len(inside))
        if live:
            ordinal = None if whole else i
            yield RowGroup(url, name, ordinal, live, file.partition, footer.nbytes[i], inside)
        first += rows


def _between(dead: DeadRows, first: int, stop: int) -> DeadRows:
    start, end = np.searchsorted(dead, [first, stop])
    return dead[start:end] - first


def _table_fingerprint(
    table: TableSnapshot, infos: Sequence[ParquetFileInfo], row_groups: Sequence[RowGroup]
) -> str:
    """Return an identity of the columns and the live rows, independent of the version.

    It includes the fields: renaming could have swapped two columns of the same files.
    """
    digest = hashlib.sha256(repr(table.fields).encode())
    for info in infos:
        digest.update(f"\n{info.name} {info.size}".encode())
    for group in row_groups:
        digest.update(f"\n{group.path} {group.ordinal} {group.num_rows} ".encode())
        if group.dead is not None:
            digest.update(group.dead.tobytes())
    return digest.hexdigest()[:16]
