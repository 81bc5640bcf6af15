"""`StoredColumns`: how a dataset's columns are stored in its files, and their live rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from mdstorm_backend.errors import (
    CorruptDatasetError,
    EncodingError,
    EncodingRangeError,
    InvalidArgumentError,
    MDStormError,
    UnsupportedTableError,
)
from mdstorm_backend.format import plain_type, plain_values
from mdstorm_backend.parquet.footers import READ_WITH_KEYS, RowGroup
from mdstorm_backend.tables.snapshot import TableField

_FIELD_ID = b"PARQUET:field_id"


@dataclass(frozen=True)
class StoredColumns:
    """How a dataset's columns are stored in its files.

    Attributes
    ----------
    schema : pyarrow.Schema
        The dataset's columns.
    fields : mapping of str to TableField
        The columns of a table, which files may store under other names, in narrower types, or not
        at all. If empty, the files have exactly the dataset's columns.
    """

    schema: pa.Schema
    fields: Mapping[str, TableField]

    def names_in(self, file: pa.Schema, columns: Sequence[str], url: str) -> dict[str, str]:
        """Map the dataset's columns to their names in a file, omitting columns that are not in it.

        Parameters
        ----------
        file : pyarrow.Schema
            The file's columns.
        columns : sequence of str
            The columns.
        url : str
            The file, for error messages.

        Raises
        ------
        UnsupportedTableError
            If the table finds columns by field id, but the file's columns have no ids.
        """
        if not self.fields:
            return {name: name for name in columns}
        fields = self.fields.values()
        by_number = any(field.field_id is not None for field in fields)
        by_number = by_number and not any(field.names_without_id for field in fields)
        if by_number and all(_number(field) is None for field in file):
            raise UnsupportedTableError(
                f"{url} has columns without field ids, but the table identifies its columns by "
                "field id, and has no name mapping. Set one as the Iceberg property "
                "schema.name-mapping.default, or write the table again",
                url=url,
            )
        found = {name: _find(file, self.fields[name]) for name in columns}
        return {name: stored.name for name, stored in found.items() if stored is not None}

    def names_of_same_type(
        self, file: pa.Schema, columns: Sequence[str], url: str
    ) -> dict[str, str]:
        """Return the result of `names_in` without columns that the file stores in another type."""
        return {
            name: stored
            for name, stored in self.names_in(file, columns, url).items()
            if name not in self.fields
            or plain_type(file.field(stored).type) == plain_type(self.fields[name].type)
        }

    def live_rows(
        self,
        file: pq.ParquetFile,
        groups: Sequence[RowGroup],
        columns: Sequence[str],
        *,
        batch_size: int | None,
        use_threads: bool = False,
    ) -> Iterator[tuple[int, dict[str, pa.Array]]]:
        """Read columns of row groups in a file, without deleted rows, in the dataset's types.

        Parameters
        ----------
        file : pyarrow.parquet.ParquetFile
            The file.
        groups : sequence of RowGroup
            Its row groups.
        columns : sequence of str
            The dataset's columns; those that are not in the file are filled with null.
        batch_size : int or None
            Number of rows to read at a time, including deleted rows; None to read all at once.
        use_threads : bool
            Whether to decode several columns at a time.

        Yields
        ------
        rows : int
            Number of rows, which may be 0.
        columns : dict of str to pyarrow.Array
            Their values.

        Raises
        ------
        UnsupportedTableError
            If a column's values cannot be converted to its type, or a table's log records another
            number of rows.
        CorruptDatasetError
            If the number of rows differs from the one in the footer.
        """
        url, recorded = groups[0].file_url, sum(group.stored_rows for group in groups)
        if groups[0].ordinal is None and recorded != file.metadata.num_rows:
            raise wrong_log(url, file.metadata.num_rows, recorded)
        names = self.names_in(file.schema_arrow, columns, url)
        options = {"columns": list(names.values()), "use_threads": use_threads}
        tables: Iterable[pa.Table | pa.RecordBatch]
        if batch_size is None:
            tables = [file.read_row_groups(_ordinals_of(groups, file), **options)]
        else:
            tables = _stored_batches(file, groups, batch_size=batch_size, **options)
        dead, start = _dead_rows(groups), 0
        for table in tables:
            stop = start + table.num_rows
            if stop > recorded:
                start = stop
                break
            inside = dead[slice(*np.searchsorted(dead, [start, stop]))] - start
            mask = None if not len(inside) else ~np.isin(np.arange(table.num_rows), inside)
            rows, start = table.num_rows - len(inside), stop
            live = {
                name: _filtered(_joined(table.column(at)), mask)
                for name, at in names.items()
                if at in table.schema.names  # structs without fields are not
            }
            yield rows, {name: self._typed(name, live.get(name), rows, url) for name in columns}
        if start != recorded:
            raise CorruptDatasetError.of_file(
                url, f"holds {start} rows, but {recorded} are recorded"
            )

    def _typed(self, name: str, values: pa.Array | None, rows: int, url: str) -> pa.Array:
        """Return a column's values in the dataset's type, or nulls if the file does not have it."""
        if values is None:
            return pa.nulls(rows, self.schema.field(name).type)
        return _in_type(values, self.fields[name], url) if self.fields else values

    def repeated(self, name: str, value: Any, rows: int) -> pa.Array:
        """Repeat a partition column's value for `rows` rows."""
        return pa.repeat(pa.scalar(value, self.schema.field(name).type), rows)


@contextmanager
def read_errors(url: str, columns: Sequence[str]) -> Iterator[None]:
    """Translate errors in a block that reads columns of a file.

    Raises
    ------
    UnsupportedTableError
        If pyarrow has no support for the values, or no key for encrypted columns.
    EncodingError
        If a dictionary holds text that is not UTF-8.
    EncodingRangeError
        If a column is read as double, and holds an integer that a double cannot hold.
    InvalidArgumentError
        If one value has more than 2 GiB.
    CorruptDatasetError
        If they cannot be read for any other reason.
    """
    try:
        yield
    except MDStormError:
        raise
    except OverflowError as error:
        raise EncodingRangeError(
            f"{url} holds integers in one of {[*columns]}, which other files hold as double, so "
            f"that it is read as double, but {error}. Leave the column out, or write it with one "
            "type"
        ) from error
    except pa.ArrowNotImplementedError as error:
        raise UnsupportedTableError(
            f"{url} holds values that pyarrow {pa.__version__} does not read ({error}): install a "
            "newer pyarrow, or read it with Spark and convert the frame",
            url=url,
        ) from error
    except (pa.ArrowException, OSError) as error:
        if "decrypt" in str(error):
            raise UnsupportedTableError(
                f"{url} has encrypted columns, so pyarrow {pa.__version__} needs a key to read "
                f"{[*columns]}, and {READ_WITH_KEYS}, or read other columns",
                url=url,
            ) from error
        if "UTF8" in str(error):  # in the dictionary of a column
            raise EncodingError(
                f"{url} holds text that is not UTF-8 in one of {[*columns]} ({error}). Store the "
                "column as binary, or leave it out"
            ) from error
        if "array too large" in str(error):
            raise InvalidArgumentError(
                f"{url} holds a text of more than 2 GiB in one of {[*columns]} ({error}). Split "
                "the text, store it as a file, or leave the column out"
            ) from error
        raise CorruptDatasetError.of_file(
            url, f"holds a row group that cannot be read ({error})"
        ) from error


def wrong_log(url: str, found: int, recorded: int) -> UnsupportedTableError:
    """Return the error for a file that has another number of rows than a table's log records."""
    return UnsupportedTableError(
        f"{url} holds {found} rows, but the table's log or manifest says {recorded}: the log is "
        "wrong, or the file was replaced. Open another version, or write the table's files again "
        "with Spark",
        url=url,
    )


def _dead_rows(groups: Sequence[RowGroup]) -> npt.NDArray[np.int64]:
    """Return the positions of deleted rows in consecutive row groups, ascending."""
    starts = accumulate((group.stored_rows for group in groups), initial=0)
    found = zip(groups, starts, strict=False)
    parts = [group.dead + start for group, start in found if group.dead is not None]
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _ordinals_of(groups: Sequence[RowGroup], file: pq.ParquetFile) -> list[int]:
    """Return the numbers of row groups in their file."""
    ordinals = [group.ordinal for group in groups if group.ordinal is not None]
    return ordinals or list(range(file.metadata.num_row_groups))


def _stored_batches(
    file: pq.ParquetFile, groups: Sequence[RowGroup], **options: Any
) -> Iterator[pa.RecordBatch]:
    """Return record batches of row groups in one file, including deleted rows.

    `options` are arguments of `pyarrow.parquet.ParquetFile.iter_batches`.
    """
    ordinals = _ordinals_of(groups, file)
    # Arrow cannot combine dictionaries inside nested types across row groups.
    types = [str(type_) for type_ in file.schema_arrow.types if pa.types.is_nested(type_)]
    is_joined = not any("dictionary<" in text for text in types)
    runs = [ordinals] if is_joined else [[ordinal] for ordinal in ordinals]
    return chain.from_iterable(file.iter_batches(row_groups=run, **options) for run in runs)


def _joined(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(values, pa.Array):
        return values
    return values.chunk(0) if values.num_chunks == 1 else values.combine_chunks()


def _filtered(values: pa.Array, mask: npt.NDArray[np.bool_] | None) -> pa.Array:
    """Return the values where `mask` is True; None keeps all."""
    if mask is None:
        return values
    try:
        return values.filter(pa.array(mask))
    except pa.ArrowNotImplementedError:  # for string views
        return values.cast(plain_type(values.type)).filter(pa.array(mask))


def _find(file: pa.Schema | pa.StructType, wanted: TableField) -> pa.Field | None:
    """Find a table's field among the fields of a file or of a struct in it."""
    for field in file:
        number = None if wanted.field_id is None else _number(field)
        names = (wanted.stored_name,) if wanted.field_id is None else wanted.names_without_id
        if (field.name in names) if number is None else number == wanted.field_id:
            return field
    return None


def _number(field: pa.Field) -> int | None:
    """Return the field id that a file stores with a field; None if it stores no id."""
    text = (field.metadata or {}).get(_FIELD_ID)
    return None if text is None else int(text)


def _in_type(values: pa.Array, field: TableField, url: str) -> pa.Array:
    try:
        return _conform(plain_values(values) if not field.children else values, field)
    except (pa.ArrowException, NotImplementedError) as error:
        raise UnsupportedTableError(
            f"{url} holds column {field.name!r} as {values.type}, not {field.type} as the table "
            f"declares ({error}). Write the table again, or open an earlier version",
            url=url,
        ) from error


def _conform(values: pa.Array, field: TableField) -> pa.Array:
    """Convert values to the type of a field, with the table's names for nested fields."""
    types, stored, wanted = pa.types, values.type, field.type
    if types.is_struct(wanted) and types.is_struct(stored):
        parts = dict(zip((part.name for part in stored), values.flatten(), strict=True))
        found = [(_find(stored, child), child) for child in field.children]
        arrays = [
            pa.nulls(len(values), child.type) if part is None else _conform(parts[part.name], child)
            for part, child in found
        ]
        mask = values.is_null() if values.null_count else None
        return pa.StructArray.from_arrays(arrays, fields=list(wanted), mask=mask)
    is_list = types.is_list(stored) or types.is_large_list(stored)
    if types.is_list(wanted) and (is_list or types.is_fixed_size_list(stored)):
        elements = _conform(values.flatten(), field.children[0])
        return pa.ListArray.from_arrays(_offsets(values, values), elements)
    if types.is_map(wanted) and types.is_map(stored):
        entries = pa.StructArray.from_arrays([values.keys, values.items], names=["key", "value"])
        lists = pa.ListArray.from_arrays(values.offsets, entries)
        parts_of_entries = zip(lists.flatten().flatten(), field.children, strict=True)
        keys, items = (_conform(part, child) for part, child in parts_of_entries)
        return pa.MapArray.from_arrays(_offsets(lists, values), keys, items)
    return values if stored == wanted else values.cast(plain_type(wanted))


def _offsets(lists: pa.Array, nulls_of: pa.Array) -> pa.Array:
    """Return the offsets of flattened lists, with a null offset for each null in `nulls_of`."""
    lengths = np.asarray(lists.value_lengths().fill_null(0))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    mask = np.concatenate([np.asarray(nulls_of.is_null()), [False]])
    return pa.array(offsets, pa.int32(), mask=mask if nulls_of.null_count else None)
