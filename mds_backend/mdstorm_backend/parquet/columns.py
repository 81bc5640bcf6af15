"""The columns of a Parquet dataset: one schema, even if names and types differ between files.

A table's files may store columns under other names, in narrower types, or not at all. Hive
partitions are columns whose values are in directory names, such as ``year=2024/month=1``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from mdstorm_backend.errors import (
    CorruptDatasetError,
    EncodingError,
    InvalidArgumentError,
    MDStormError,
    UnsupportedTableError,
    UnsupportedTypeError,
)
from mdstorm_backend.format import Column, Schema, depth_of, numpy_dtype, plain_type, plain_values
from mdstorm_backend.format.schema import Origin
from mdstorm_backend.format.type_plan import plan_batch
from mdstorm_backend.parquet.footers import READ_WITH_KEYS, Footer, RowGroup
from mdstorm_backend.tables.snapshot import TableField, UnsupportedType


def columns_of(
    fields: pa.Schema,
    partitions: Collection[str],
    footers: Sequence[Footer],
    row_groups: Sequence[RowGroup],
    url: str,
) -> tuple[Schema, dict[str, pa.DataType]]:
    """Return the columns that the data would have in MDS, and the types of unsupported columns.

    Parameters
    ----------
    fields : pyarrow.Schema
        The Arrow schema of the files.
    partitions : collection of str
        The names of the partition columns.
    footers : sequence of Footer
        The footers of all files, with null counts and array lengths.
    row_groups : sequence of RowGroup
        All row groups, with their partition values.
    url : str
        The dataset, for error messages.

    Raises
    ------
    InvalidArgumentError
        If two columns have the same name, or one has no name.
    """
    planned, left_out = _planned(fields)
    nulls: Counter[str] = Counter()
    uncounted: set[str] = set()
    lengths: dict[str, set[int]] = defaultdict(set)
    for footer in footers:
        nulls.update({name: count or 0 for name, count in footer.nulls.items()})
        uncounted.update(name for name, count in footer.nulls.items() if count is None)
        for name, found in footer.lengths.items():
            lengths[name] |= found
    for group in row_groups:
        nulls.update({name: group.num_rows for name, v in group.partition.items() if v is None})

    def described(column: Column) -> Column:
        name, type_, length = column.name, fields.field(column.name).type, column.length
        is_flat = column.is_array and depth_of(column.arrow_type) == 1
        if is_flat and pa.types.is_fixed_size_list(type_):
            length = type_.list_size
        is_counted = name not in uncounted
        origin = Origin(
            url,
            lengths="differ" if len(lengths[name]) > 1 else "unknown",
            counts_nulls=is_counted,
            is_partition=name in partitions,
        )
        count = nulls[name] if is_counted else 0
        return replace(column, null_count=count, length=length, origin=origin)

    return Schema(tuple(map(described, planned))), left_out


def _planned(fields: pa.Schema) -> tuple[list[Column], dict[str, pa.DataType]]:
    """Return the supported columns, without counts, and the types of unsupported columns."""
    left_out: dict[str, pa.DataType] = {}
    try:
        planned = plan_batch(fields, None)
    except UnsupportedTypeError as error:
        left_out = {name: fields.field(name).type for name in error.columns}
        kept = [field for field in fields if field.name not in left_out]
        planned = plan_batch(pa.schema(kept), None) if kept else Schema(())
    return [*planned], left_out


def without_unsupported(schema: pa.Schema, footers: Sequence[Footer]) -> pa.Schema:
    """Return a schema with an `UnsupportedType` for columns that are unsupported in some file."""
    found = {name: kind for footer in footers for name, kind in footer.unsupported.items()}
    if not found:
        return schema
    fields = [
        field.with_type(UnsupportedType(found[field.name])) if field.name in found else field
        for field in schema
    ]
    return pa.schema(fields, schema.metadata)


def common_schema(schemas: Sequence[pa.Schema], urls: Sequence[str]) -> pa.Schema:
    """Return the first file's schema, with columns widened to fit all files.

    Files may differ in column order and the width of numbers; a column without values may have type
    null. A column with several types gets a plain type: see `plain_type`.

    Parameters
    ----------
    schemas : sequence of pyarrow.Schema
        One schema per file, at least one.
    urls : sequence of str
        The files, for error messages.

    Raises
    ------
    UnsupportedTableError
        If a file has different columns than the first one, or a column has an incompatible type.
    """
    first = schemas[0]
    types = {field.name: field.type for field in first}
    known = [first]
    for schema, url in zip(schemas, urls, strict=True):
        if any(schema.equals(other) for other in known):
            continue
        known.append(schema)
        found = {field.name: field.type for field in schema}
        for has, lacks, of_first in ((types, found, True), (found, types, False)):
            missing = next((name for name in has if name not in lacks), None)
            if missing is not None:
                there, here = (urls[0], url) if of_first else (url, urls[0])
                raise _mixed(
                    f"{here} has no column {missing!r}, but {there} has it, as {has[missing]}", url
                )
        for name, type_ in found.items():
            wider = _wider(types[name], type_)
            if wider is None:
                raise _mixed(
                    f"column {name!r} is {type_} in {url} and {types[name]} in {urls[0]}", url
                )
            types[name] = wider
    fields = [field.with_type(types[field.name]) for field in first]
    return pa.schema(fields, first.metadata)


def _mixed(what: str, url: str) -> UnsupportedTableError:
    return UnsupportedTableError(
        f"{what}: all files in a dataset need the same columns. Pass the matching files as a list, "
        "or rewrite the others",
        url=url,
    )


def _wider(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return whichever of two types exactly holds all values of both, or None if neither does.

    Fixed-size lists become lists, because lengths may differ. There is no such type for tensors
    with different shapes.
    """
    if one == other or pa.types.is_null(other):
        return one
    if pa.types.is_null(one):
        return other
    if any(isinstance(type_, pa.FixedShapeTensorType) for type_ in (one, other)):
        return None
    return _wider_plain(plain_type(one), plain_type(other))


def _wider_plain(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """Return the result of `_wider` for plain types, by the same rules at every depth."""
    types = pa.types
    if types.is_null(one) or types.is_null(other):
        return one if types.is_null(other) else other
    if types.is_list(one) and types.is_list(other):
        element = _wider_plain(one.value_type, other.value_type)
        return None if element is None else pa.list_(element)
    if types.is_map(one) and types.is_map(other):
        key = _wider_plain(one.key_type, other.key_type)
        item = _wider_plain(one.item_type, other.item_type)
        return None if key is None or item is None else pa.map_(key, item)
    if types.is_struct(one) and types.is_struct(other):
        parts = {field.name: field.type for field in other}
        if sorted(field.name for field in one) != sorted(parts):
            return None
        fields = [(field.name, _wider_plain(field.type, parts[field.name])) for field in one]
        return None if any(type_ is None for _, type_ in fields) else pa.struct(fields)
    if _holds(one, other):
        return one
    return other if _holds(other, one) else None


def _holds(wide: pa.DataType, narrow: pa.DataType) -> bool:
    types = pa.types
    if wide == narrow:
        return True
    if types.is_decimal128(wide) and types.is_decimal128(narrow):
        return bool(wide.scale == narrow.scale and wide.precision >= narrow.precision)
    if not all(types.is_integer(type_) or types.is_floating(type_) for type_ in (wide, narrow)):
        return False
    if types.is_floating(wide) and types.is_integer(narrow) and narrow.bit_width == 64:
        return False  # not exact, although NumPy considers the cast to float64 safe
    return bool(np.can_cast(numpy_dtype(narrow), numpy_dtype(wide), "safe"))


#: The directory name that Hive and Spark use for a null.
_NULL = "__HIVE_DEFAULT_PARTITION__"


def partition_columns(
    names: Sequence[str], url: str
) -> tuple[list[pa.Field], list[dict[str, Any]]]:
    """Return the partition columns in file paths, and their values for each file.

    A column holds integers if all of its values are integers or null, otherwise strings.

    Parameters
    ----------
    names : sequence of str
        File paths relative to the dataset.
    url : str
        The dataset, for error messages.

    Raises
    ------
    UnsupportedTableError
        If files have different partition columns.
    """
    texts = [partition_texts(name) for name in names]
    first = list(texts[0])
    for name, found in zip(names, texts, strict=True):
        if list(found) != first:
            raise UnsupportedTableError(
                f"{url}/{name} is partitioned by {list(found)}, but {url}/{names[0]} by {first}: "
                "all files in a dataset need the same partition columns. Move the file, or pass "
                "the files as a list to read them without partition columns",
                url=f"{url}/{name}",
            )
    fields = []
    for column in first:
        values = {found[column] for found in texts}
        is_integer = values != {None} and all(_is_integer(v) for v in values if v is not None)
        type_ = pa.int64() if is_integer else pa.string()
        fields.append(pa.field(column, type_, nullable=None in values))
    shared: dict[tuple[str | None, ...], dict[str, Any]] = {}
    for found in texts:
        shared.setdefault(
            tuple(found.values()),
            {
                field.name: int(text) if text is not None and field.type == pa.int64() else text
                for field, text in zip(fields, found.values(), strict=True)
            },
        )
    return fields, [shared[tuple(found.values())] for found in texts]


def _is_integer(text: str) -> bool:
    try:
        return -(2**63) <= int(text) < 2**63  # int("1_0") is 10, as in Petastorm
    except ValueError:
        return False


def partition_texts(name: str) -> dict[str, str | None]:
    """Return the partition values in a path's directory names, as strings by column.

    None means null.

    Raises
    ------
    EncodingError
        If a percent-encoded name or value is not UTF-8.
    """
    directories = name.split("/")[:-1]
    pairs = (directory.partition("=") for directory in directories if "=" in directory)
    try:
        return {
            unquote(column, errors="strict"): None
            if text == _NULL
            else unquote(text, errors="strict")
            for column, _, text in pairs
        }
    except UnicodeDecodeError as error:
        raise EncodingError(
            f"the directory names of {name} hold a percent-encoded partition value that is not "
            f"UTF-8 ({error}). Rename the directory, as Spark would write it"
        ) from error


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
        url = groups[0].file_url
        names = self.names_in(file.schema_arrow, columns, url)
        options = {"columns": list(names.values()), "use_threads": use_threads}
        tables: Iterable[pa.Table | pa.RecordBatch]
        if batch_size is None:
            tables = [file.read_row_groups(_ordinals_of(groups, file), **options)]
        else:
            tables = _stored_batches(file, groups, batch_size=batch_size, **options)
        alive = np.concatenate([group.alive() for group in groups])
        start = 0
        for table in tables:
            mask = alive[start : start + table.num_rows]
            start += table.num_rows
            if len(mask) < table.num_rows:
                break
            rows = int(mask.sum())
            live = {
                name: _filtered(_joined(table.column(at)), mask)
                for name, at in names.items()
                if at in table.schema.names  # structs without fields are not
            }
            yield rows, {name: self._typed(name, live.get(name), rows, url) for name in columns}
        if start != len(alive):
            if self.fields and start >= file.metadata.num_rows:
                raise UnsupportedTableError(
                    f"{url} holds {file.metadata.num_rows} rows, but the table's log or manifest "
                    f"says {len(alive)}: the log is wrong, or the file was replaced. Open another "
                    "version, or write the table's files again with Spark",
                    url=url,
                )
            raise CorruptDatasetError.of_file(
                url, f"holds {start} rows, but {len(alive)} are recorded"
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
    InvalidArgumentError
        If one value has more than 2 GiB.
    CorruptDatasetError
        If they cannot be read for any other reason.
    """
    try:
        yield
    except MDStormError:
        raise
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


def _filtered(values: pa.Array, mask: npt.NDArray[np.bool_]) -> pa.Array:
    """Return the values where `mask` is True."""
    if mask.all():
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
