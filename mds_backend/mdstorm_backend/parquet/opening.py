"""Open Parquet files or a version of a table: list the files and read their footers.

A table's log lists its live files and rows; the values are read from Parquet. If the log records
how many rows a small file has, the file's footer is not read, and the whole file is one shard.
Other files are opened like files in a directory.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import takewhile
from typing import Any

import numpy as np
import pyarrow as pa

from mdstorm_backend import errors
from mdstorm_backend.base import map_files
from mdstorm_backend.cache import CacheOptions
from mdstorm_backend.display import shown_urls
from mdstorm_backend.format import INDEX_NAME
from mdstorm_backend.parquet import columns, footers
from mdstorm_backend.parquet.common_schema import common_schema
from mdstorm_backend.parquet.parquet_dataset import ParquetDataset
from mdstorm_backend.parquet.partitions import partition_columns
from mdstorm_backend.parquet.stored_columns import StoredColumns, wrong_log
from mdstorm_backend.read import fingerprint_of
from mdstorm_backend.storage import LOCAL_ROOT, Location, Pins
from mdstorm_backend.storage.stores.store import store_of
from mdstorm_backend.tables import layouts, snapshot

#: Table files of more bytes than this are read row group by row group.
_MOST_BYTES_OF_A_SHARD = 32 << 20
#: A log that records more rows for each byte of a file than this is not believed.
_MOST_ROWS_PER_BYTE = 8
#: Approximate size of uncompressed values, relative to the size of their file.
_EXPANSION = 3
#: Extensions of files that may be alongside the data, but never belong to it.
_OTHER_FILES = (".crc", "_$folder$")
#: Key in the footers of files that belong to an Iceberg table.
_ICEBERG = b"iceberg.schema"


def open_parquet(
    locations: Sequence[Location],
    *,
    cache: CacheOptions | None = None,
    may_be_unfinished: bool = False,
    partitioned: bool = True,
) -> ParquetDataset:
    """Open Parquet files that are not a table.

    Parameters
    ----------
    locations : sequence of Location
        A directory, whose files at any depth are read in path order, and whose Hive partitions
        become columns; a Parquet file; a pattern with ``*``, ``?`` or ``[…]``; or several files and
        directories, read in that order without partition columns. Files and directories whose
        names begin with ``_`` or ``.`` are ignored.
    cache : CacheOptions, optional
        How remote files are cached on this machine.
    may_be_unfinished : bool
        Whether to read a directory in which a Spark job may not have finished.
    partitioned : bool
        Whether a directory has partition columns; otherwise it is opened as a list of its files.

    Raises
    ------
    DatasetNotFoundError
        If a location does not exist or has no files.
    CorruptDatasetError
        If a file is not a Parquet file.
    UnsupportedTableError
        If the files are part of a table, are encrypted, or were left unfinished by a Spark job.
    CredentialsError, StorageError
        If the storage denies access or fails.
    """
    location, files, is_directory = _find_files(
        locations, check=not may_be_unfinished, partitioned=partitioned
    )
    names = None if is_directory else [file.name for file in files]
    urls = [one.url for one in locations] if partitioned else map(location.file_url, names or ())
    url = shown_urls([*urls])
    layouts.check_no_part_of_a_table(url, location, names)
    named = {one.url for one in locations}
    return _open_files(url, location, files, cache, is_directory=is_directory, named=named)


def open_listed(url: str, location: Location, cache: CacheOptions | None) -> ParquetDataset:
    """Open the files in a directory that a catalog names, which may not be described otherwise.

    For errors, see `open_parquet`; `url` is in messages.
    """
    files = _infos(location, _files_in(location, check=True))
    return _open_files(url, location, files, cache, is_directory=True)


def _open_files(
    url: str,
    location: Location,
    files: tuple[footers.ParquetFileInfo, ...],
    cache: CacheOptions | None,
    *,
    is_directory: bool,
    named: Collection[str] = (),
) -> ParquetDataset:
    """Open Parquet files that are not a table; for errors see `open_parquet`.

    `named` are the URLs that the user passed, which may be those of single files.
    """
    names = [file.name for file in files]
    file_urls = [location.file_url(name) for name in names]
    pins = Pins(location.path, footers.directories_of(files)) if location.is_local_disk else None
    file_footers = footers.read_footers(location, files, cache or CacheOptions(), pins)
    listed = [f for one, f in zip(file_urls, file_footers, strict=True) if one not in named]
    _check_not_of_iceberg(url, listed)
    # Directory names are partition columns only if a single directory was given.
    paths = names if is_directory else [name.rpartition("/")[2] for name in names]
    fields, partitions = partition_columns(paths, url)
    of_partitions = tuple(field.name for field in fields)
    row_groups = [
        footers.RowGroup(url, name, ordinal, rows, partition, nbytes)
        for url, name, footer, partition in zip(
            file_urls, names, file_footers, partitions, strict=True
        )
        for ordinal, (rows, nbytes) in enumerate(zip(footer.rows, footer.nbytes, strict=True))
    ]
    stored, differing = common_schema([footer.schema for footer in file_footers], file_urls)
    fields += [field for field in stored if field.name not in of_partitions]
    arrow = columns.without_unsupported(pa.schema(fields, stored.metadata), file_footers)
    schema, left_out = columns.columns_of(
        arrow, of_partitions, file_footers, row_groups, url, differing
    )
    described = list(zip(files, file_footers, strict=True))
    text = "\n".join(f"{f.name} {f.size} {footer.digest} {footer.rows}" for f, footer in described)
    # Earlier versions identified a file by its time, so that states did not load into copies.
    former = "\n".join(f"{f.name} {f.size} {f.identity} {footer.rows}" for f, footer in described)
    return ParquetDataset(
        url,
        location,
        files,
        tuple(row_groups),
        schema,
        arrow,
        of_partitions,
        left_out,
        fingerprint_of(text.encode()),
        cache,
        root=location if is_directory else None,
        pins=pins,
        former=fingerprint_of(former.encode()),
    )


def has_same_files(dataset: ParquetDataset) -> bool:
    """Whether the dataset still has the same files as when it was opened.

    The directory is listed again, and names, sizes, modification times and tags are compared.

    Raises
    ------
    CredentialsError, StorageError
        If the storage denies access or fails.
    """
    location = dataset.location
    again = Location.of(dataset.url, location.storage_options, location.filesystem)
    return _find_files([again], check=False, partitioned=True)[1] == dataset.files


def check_one_storage(locations: Sequence[Location]) -> None:
    """Raise InvalidArgumentError if locations are in different stores."""
    storages = sorted({"/".join(location.url.split("/")[:3]) for location in locations})
    if len(storages) > 1:
        raise errors.InvalidArgumentError(
            f"a list must contain url with the same scheme and netloc, found {storages}: read "
            "each of them as a separate dataset"
        )


def _find_files(
    locations: Sequence[Location], *, check: bool, partitioned: bool
) -> tuple[Location, tuple[footers.ParquetFileInfo, ...], bool]:
    """List the files at `locations`; with `check`, apply `check_layout` to directories.

    Returns
    -------
    base : Location
        Directory that contains all files, at any depth.
    files : tuple of ParquetFileInfo
        The files in order, at least one.
    is_directory : bool
        Whether a single directory was requested, so that paths may include partitions.
    """
    behind = map_files(partial(_behind, check=check), locations)
    found = [file for files, _ in behind for file in files]
    is_directory = partitioned and len(locations) == 1 and behind[0][1]
    urls = [url for url, _ in found]
    base = locations[0] if is_directory else _common_directory(urls, locations[0])
    return base, _infos(base, found), is_directory


def _infos(
    base: Location, found: Sequence[tuple[str, dict[str, Any]]]
) -> tuple[footers.ParquetFileInfo, ...]:
    """Return files under a directory, from their URLs and fsspec's descriptions."""
    return tuple(footers.ParquetFileInfo.of(base.name_of(url), info) for url, info in found)


def _behind(location: Location, *, check: bool) -> tuple[list[tuple[str, dict[str, Any]]], bool]:
    """Return the files at a URL as fsspec describes them, and whether the URL is a directory."""
    url, info = location.url, location.describe()
    is_directory = info is not None and info["type"] == "directory"
    if is_directory:
        files = _files_in(location, check=check)
    elif info is not None:
        files = [(url, info)]
    elif location.is_pattern:
        matches = location.matching(lambda name: not is_hidden(name))
        files = [file for match in matches for file in _behind(match, check=check)[0]]
    else:
        found = _missing_bucket(location) or (
            f"there is no dataset at {url}: it has no {INDEX_NAME}, and is neither a Parquet file "
            "nor a directory of Parquet files (Passed non-file path)"
        )
        raise errors.DatasetNotFoundError(
            f"{found}. Check the URL, and whether this machine can access the storage; if the "
            "dataset was deleted, or its job failed, write it again",
            url=url,
        )
    _check_not_empty(url, files)
    return files, is_directory


def _missing_bucket(location: Location) -> str | None:
    """Return a message if the bucket of an object store's URL does not exist, otherwise None."""
    if not store_of(location.url).has_buckets or location.filesystem is not None:
        return None
    bucket = "/".join(location.url.split("/")[:3])
    with suppress(errors.MDStormError, OSError):  # it may exist, and must not be listed
        if Location.of(bucket, location.storage_options).describe() is None:
            return f"{location.url} cannot be read, because {bucket} does not exist"
    return None


def _files_in(location: Location, *, check: bool) -> list[tuple[str, dict[str, Any]]]:
    """Return the files in a directory, which must have some; with `check`, apply `check_layout`."""
    listed = location.list_files()
    if check:
        layouts.check_layout(location, [name for name, _ in listed])
    files = [(location.file_url(name), info) for name, info in listed if not is_hidden(name)]
    _check_not_empty(location.url, files)
    return files


def _check_not_empty(url: str, files: Sequence[object]) -> None:
    if not files:
        raise errors.DatasetNotFoundError(
            f"{url} has no Parquet files and no {INDEX_NAME} (names that begin with '_' or '.' are "
            "ignored). Check the URL, and whether the job that writes them has ended",
            url=url,
        )


def is_hidden(name: str) -> bool:
    """Whether a path relative to the dataset is excluded from the data by its name."""
    *directories, file = name.split("/")
    return (
        file.startswith(("_", "."))
        or file.endswith(_OTHER_FILES)
        # However, a partition column may be called `_day`, in the directory `_day=1`.
        or any(part.startswith(("_", ".")) and "=" not in part for part in directories)
    )


def _check_not_of_iceberg(url: str, found: Sequence[footers.Footer]) -> None:
    """Raise an error for listed files of an Iceberg table whose metadata is in no parent directory.

    Whoever names a single file wants its rows.
    """
    if any(_ICEBERG in (footer.schema.metadata or {}) for footer in found):
        raise errors.UnsupportedTableError(
            f"{url} has files of an Iceberg table (their footers have the key "
            f"{_ICEBERG.decode()!r}), which may hold rows that were deleted or replaced, and the "
            "table's metadata is elsewhere. Pass the URL of its metadata file, which ends in "
            ".metadata.json; the catalog calls it metadata_location. To read all rows of single "
            "files, pass a list of them",
            url=url,
        )


def _common_directory(urls: Sequence[str], one: Location) -> Location:
    """Return the deepest directory that contains all files."""
    levels = zip(*(url.split("/")[:-1] for url in urls), strict=False)
    common = takewhile(lambda level: len(set(level)) == 1, levels)
    return replace(one, url=_of_directory("/".join(level[0] for level in common)))


def _of_directory(url: str) -> str:
    """Return the URL of a directory whose last slash was cut off; only the local root keeps it."""
    return LOCAL_ROOT if url == LOCAL_ROOT[:-1] else url


def open_snapshot(
    url: str,
    table: snapshot.TableSnapshot,
    *,
    cache: CacheOptions | None = None,
    keep_row_groups: bool = False,
) -> ParquetDataset:
    """Open a version of a table.

    Parameters
    ----------
    url : str
        URL or name of the table, for messages.
    table : TableSnapshot
        The columns, files and live rows of the version.
    cache : CacheOptions, optional
        How remote files are cached on this machine.
    keep_row_groups : bool
        Whether each row group is a shard. Otherwise, a small file that the log describes is one
        shard with all of its row groups, so that its footer does not have to be read.

    Raises
    ------
    CorruptDatasetError, UnsupportedTableError, CredentialsError, StorageError
        See `open_parquet`.
    """
    base, infos = _located(table)
    arrow = pa.schema([pa.field(f.name, f.type, nullable=f.nullable) for f in table.fields])
    fields = {field.name: field for field in table.fields}
    is_whole = [not keep_row_groups and _is_described(file, table) for file in table.files]
    read = [info for info, whole in zip(infos, is_whole, strict=True) if not whole]
    file_footers = iter(footers.read_footers(base, read, cache or CacheOptions()))
    stored = StoredColumns(arrow, fields)
    names = [name for name in fields if name not in table.partition_columns]
    described: list[footers.Footer] = []
    row_groups: list[footers.RowGroup] = []
    for file, info, whole in zip(table.files, infos, is_whole, strict=True):
        file_url = base.file_url(info.name)
        if whole:
            assert file.num_rows is not None
            nbytes = file.size * _EXPANSION
            footer = footers.Footer(arrow, (file.num_rows,), (nbytes,), dict(file.nulls), {})
        else:
            footer = _renamed(next(file_footers), stored, names, file_url)
            if _is_described(file, table) and sum(footer.rows) != file.num_rows:
                # If each row group is a shard, the answer is the same as if the file is one.
                raise wrong_log(file_url, sum(footer.rows), file.num_rows or 0)
        described.append(footer)
        row_groups += _live_row_groups(file, info.name, file_url, footer, whole=whole)
    arrow = columns.without_unsupported(arrow, described)
    partitions = table.partition_columns
    schema, left_out = columns.columns_of(arrow, partitions, described, row_groups, url)
    return ParquetDataset(
        url,
        base,
        infos,
        tuple(row_groups),
        schema,
        arrow,
        partitions,
        left_out,
        _identity(table, infos, row_groups),
        cache,
        fields,
        table.version,
        table.location,
        root=table.root,
    )


def _identity(
    table: snapshot.TableSnapshot,
    infos: Sequence[footers.ParquetFileInfo],
    row_groups: Sequence[footers.RowGroup],
) -> str:
    """Return a fingerprint of the columns, files and live rows, without the table's version.

    It includes the fields, because renaming could have swapped two columns in the same files.
    """
    digest = hashlib.sha256(repr(table.fields).encode())
    for info in infos:
        digest.update(f"\n{info.name} {info.size}".encode())
    for group in row_groups:
        digest.update(f"\n{group.path} {group.ordinal} {group.num_rows} ".encode())
        if group.dead is not None:
            digest.update(group.dead.tobytes())
    return digest.hexdigest()[:16]


def _located(
    table: snapshot.TableSnapshot,
) -> tuple[Location, tuple[footers.ParquetFileInfo, ...]]:
    """Return a directory that contains all of a table's files, and the files' paths in it."""
    root, names = table.location, [file.path for file in table.files]
    base = root
    if any(map(snapshot.is_absolute, names)):  # a shallow clone refers to another table's files
        urls = [n if snapshot.is_absolute(n) else root.file_url(n) for n in names]
        found = [Location.of(url, root.storage_options) for url in urls]
        check_one_storage([root, *found])
        base = _common_directory([one.url for one in found], root)
        names = [base.name_of(one.url) for one in found]
    infos = tuple(
        footers.ParquetFileInfo(name, file.size, str(file.modified), table.version)
        for name, file in zip(names, table.files, strict=True)
    )
    return base, infos


def _is_described(file: snapshot.LiveFile, table: snapshot.TableSnapshot) -> bool:
    """Whether a table's file can be one shard whose footer need not be read to open the table.

    The file must be small enough, and the log must record its rows. Some writers record 0 for files
    with rows, and a wrong number may be so large that nothing could be allocated for it: the footer
    decides. Since the log does not record
    array lengths, which determine whether TensorFlow gets dense or ragged tensors, files of tables
    with arrays must be read.
    """
    return (
        file.num_rows is not None
        and 0 < file.num_rows <= file.size * _MOST_ROWS_PER_BYTE
        and file.size <= _MOST_BYTES_OF_A_SHARD
        and not any(pa.types.is_list(field.type) for field in table.fields)
    )


def _renamed(
    footer: footers.Footer, stored: StoredColumns, names: Sequence[str], url: str
) -> footers.Footer:
    """Return the footer of a table file, with the table's column names."""
    places = stored.names_in(footer.schema, names, url)
    nulls: dict[str, int | None] = {n: sum(footer.rows) for n in names if n not in places}
    nulls |= {name: footer.nulls[at] for name, at in places.items() if at in footer.nulls}
    lengths = {name: footer.lengths[at] for name, at in places.items() if at in footer.lengths}
    unsupported = {
        n: footer.unsupported[at] for n, at in places.items() if at in footer.unsupported
    }
    return footers.Footer(stored.schema, footer.rows, footer.nbytes, nulls, lengths, unsupported)


def _live_row_groups(
    file: snapshot.LiveFile, name: str, url: str, footer: footers.Footer, *, whole: bool
) -> Iterator[footers.RowGroup]:
    """Yield the row groups in a file that have live rows."""
    stored, dead = sum(footer.rows), file.dead
    if len(dead) and dead[-1] >= stored:
        raise errors.CorruptDatasetError(
            f"{url} holds {stored} rows, but row {dead[-1]} is recorded as deleted. Copy the "
            "table again, or open a different version",
            url=url,
        )
    first = 0
    for number, (rows, nbytes) in enumerate(zip(footer.rows, footer.nbytes, strict=True)):
        start, end = np.searchsorted(dead, [first, first + rows])
        inside = dead[start:end] - first if start < end else None
        if live := rows - int(end - start):
            ordinal = None if whole else number
            yield footers.RowGroup(url, name, ordinal, live, file.partition, nbytes, inside)
        first += rows
