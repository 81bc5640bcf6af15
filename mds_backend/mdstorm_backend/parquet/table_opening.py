"""Open a Delta table: its live files and rows come from its log, the values from Parquet.

Where the log says how many rows a small file has, its footer is not read: the file with all of its
row groups is one shard. Other files are opened as those of a directory are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from mdstorm_backend.cache.cache_options import CacheOptions
from mdstorm_backend.errors import CorruptDatasetError, DatasetNotFoundError
from mdstorm_backend.parquet.column_plan import plan_columns, with_statistics
from mdstorm_backend.parquet.footers import Footer, read_footers
from mdstorm_backend.parquet.listing import check_one_storage, common_directory
from mdstorm_backend.parquet.parquet_dataset import ParquetDataset
from mdstorm_backend.parquet.parquet_files import missing_file
from mdstorm_backend.parquet.row_groups import ParquetFileInfo, RowGroup
from mdstorm_backend.parquet.stored_columns import StoredColumns
from mdstorm_backend.storage import Location
from mdstorm_backend.tables import AsOf, DeadRows, LiveFile, TableSnapshot, is_absolute, open_delta

#: Larger files are read row group by row group.
_MOST_BYTES_OF_A_SHARD = 32 << 20
#: About how much more bytes values have than the file that holds them.
_EXPANSION = 3


def open_table(
    location: Location, as_of: AsOf, cache: CacheOptions | None, *, keep_row_groups: bool
) -> ParquetDataset:
    """Open a version of a Delta table; for arguments and errors see `open_parquet`."""
    table = open_delta(location, as_of)
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
    schema, left_out = plan_columns(arrow)
    return ParquetDataset(
        location.url,
        base,
        infos,
        row_groups,
        with_statistics(schema, footers, row_groups, location.url),
        arrow,
        table.partition_columns,
        left_out,
        _fingerprint(table, infos, row_groups),
        cache,
        fields,
        table.version,
    )


def _located(
    location: Location, table: TableSnapshot
) -> tuple[Location, tuple[ParquetFileInfo, ...]]:
    """Return a directory that has all files of a table, and the files in it."""
    if not any(is_absolute(file.path) for file in table.files):
        base, names = location, [file.path for file in table.files]
    else:  # a shallow clone, which has files of another table
        found = [
            Location.of(
                file.path if is_absolute(file.path) else location.file_url(file.path),
                location.storage_options,
            )
            for file in table.files
        ]
        check_one_storage([location, *found])
        base = common_directory([one.url for one in found], location)
        names = [one.url[len(base.url) + 1 :] for one in found]
    infos = tuple(
        ParquetFileInfo(name, file.size, str(file.modified))
        for name, file in zip(names, table.files, strict=True)
    )
    return base, infos


def _is_described(file: LiveFile, table: TableSnapshot) -> bool:
    """Whether the log says enough about a file that is not too large for a shard.

    It does not say how long arrays are, by which TensorFlow gets dense or ragged tensors.
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
    """Read the footers of some files, and describe them by the names of the table."""
    if not infos:
        return []
    try:
        footers = read_footers(base, infos, cache or CacheOptions())
    except DatasetNotFoundError as error:
        raise missing_file(error.url, table.version) from error
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
            f"{url} holds {stored} rows, but its deletion vector removes row {dead[-1]}. Copy the "
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


def _fingerprint(
    table: TableSnapshot, infos: Sequence[ParquetFileInfo], row_groups: Sequence[RowGroup]
) -> str:
    """Return an identity of the columns and the live rows, whatever version they are.

    Columns may have been renamed: two of them may have changed places in the same files.
    """
    digest = hashlib.sha256(repr(table.fields).encode())
    for info in infos:
        digest.update(f"\n{info.name} {info.size}".encode())
    for group in row_groups:
        digest.update(f"\n{group.path} {group.ordinal} {group.num_rows} ".encode())
        if group.dead is not None:
            digest.update(group.dead.tobytes())
    return digest.hexdigest()[:16]
