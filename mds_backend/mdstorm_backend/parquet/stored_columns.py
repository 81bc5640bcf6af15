"""Find the columns of a dataset in a file, whose names and types may be others.

INT96 timestamps before 1970, which some versions of Arrow write wrongly, are repaired.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from mdstorm_backend.errors import CorruptDatasetError
from mdstorm_backend.format.values.arrow_types import plain_type, plain_values
from mdstorm_backend.tables import TableField

_FIELD_ID = b"PARQUET:field_id"


@dataclass(frozen=True)
class StoredColumns:
    """How the columns of a dataset are stored in its files.

    Attributes
    ----------
    schema : pyarrow.Schema
        The columns, as the dataset has them.
    fields : mapping of str to TableField
        The columns of a table, which may have other names in a file, narrower types, or be missing
        there. Without any, the files have the columns of the dataset.
    """

    schema: pa.Schema
    fields: Mapping[str, TableField]

    def names_in(self, file: pa.Schema, columns: Sequence[str], url: str) -> dict[str, str]:
        """Return for some columns their names in a file; columns that it lacks are missing.

        Parameters
        ----------
        file : pyarrow.Schema
            The columns of the file.
        columns : sequence of str
            The columns.
        url : str
            The file, for error messages.

        Raises
        ------
        CorruptDatasetError
            If columns are found by number, and those of the file have none.
        """
        if not self.fields:
            return {name: name for name in columns}
        fields = self.fields.values()
        by_number = any(field.field_id is not None for field in fields)
        by_number = by_number and not any(field.names_without_id for field in fields)
        if by_number and all(_number(field) is None for field in file):
            raise CorruptDatasetError(
                f"{url} has columns without field ids, by which the table finds them. Write the "
                "table again",
                url=url,
            )
        found = {name: _find(file, self.fields[name]) for name in columns}
        return {name: stored.name for name, stored in found.items() if stored is not None}

    def names_of_same_type(
        self, file: pa.Schema, columns: Sequence[str], url: str
    ) -> dict[str, str]:
        """Return the same for columns that the file has in the type of the dataset."""
        names = self.names_in(file, columns, url)
        if not self.fields:
            return names
        return {
            name: stored
            for name, stored in names.items()
            if plain_type(file.field(stored).type) == plain_type(self.fields[name].type)
        }

    def completed(
        self, stored: Mapping[str, pa.Array], columns: Sequence[str], rows: int, url: str
    ) -> dict[str, pa.Array]:
        """Return columns of a file as those of the dataset: with all columns, in their types.

        Parameters
        ----------
        stored : mapping of str to pyarrow.Array
            Columns of the file, by their names in the dataset.
        columns : sequence of str
            The columns to return. Those that the file lacks are null.
        rows : int
            How many rows there are.
        url : str
            The file, for error messages.

        Raises
        ------
        CorruptDatasetError
            If values of a column cannot be of its type.
        """
        if not self.fields:
            return {name: stored[name] for name in columns if name in stored}
        return {
            name: pa.nulls(rows, self.fields[name].type)
            if name not in stored
            else _in_type(stored[name], self.fields[name], url)
            for name in columns
        }

    def repeated(self, name: str, value: Any, rows: int) -> pa.Array:
        """Return the value of a partition column for so many rows."""
        return pa.repeat(pa.scalar(value, self.schema.field(name).type), rows)


def filtered(values: pa.Array, mask: npt.NDArray[np.bool_]) -> pa.Array:
    """Return the values for which a mask is True."""
    try:
        return values.filter(pa.array(mask))
    except pa.ArrowNotImplementedError:  # for views of strings
        return values.cast(plain_type(values.type)).filter(pa.array(mask))


def _find(file: pa.Schema | pa.StructType, wanted: TableField) -> pa.Field | None:
    """Find a field of a table among those of a file, or of a struct in it."""
    for field in file:
        number = None if wanted.field_id is None else _number(field)
        names = (wanted.stored_name,) if wanted.field_id is None else wanted.names_without_id
        if (field.name in names) if number is None else number == wanted.field_id:
            return field
    return None


def _number(field: pa.Field) -> int | None:
    """Return the number that a file gives a field."""
    text = (field.metadata or {}).get(_FIELD_ID)
    return None if text is None else int(text)


def _in_type(values: pa.Array, field: TableField, url: str) -> pa.Array:
    try:
        return _conform(plain_values(values) if not field.children else values, field)
    except (pa.ArrowException, NotImplementedError) as error:
        raise CorruptDatasetError(
            f"{url} holds column {field.name!r} as {values.type}, not {field.type} ({error}). Copy "
            "it again, or write the table again",
            url=url,
        ) from error


def _conform(values: pa.Array, field: TableField) -> pa.Array:
    """Return values in the type of a field, with the names that the table has for nested ones."""
    if pa.types.is_struct(field.type) and pa.types.is_struct(values.type):
        return _conformed_struct(values, field)
    if pa.types.is_list(field.type) and _is_list(values.type):
        elements = _conform(values.flatten(), field.children[0])
        return pa.ListArray.from_arrays(_offsets(values, values), elements)
    if pa.types.is_map(field.type) and pa.types.is_map(values.type):
        return _conformed_map(values, field)
    return values if values.type == field.type else values.cast(plain_type(field.type))


def _conformed_struct(values: pa.StructArray, field: TableField) -> pa.Array:
    parts = dict(zip((part.name for part in values.type), values.flatten(), strict=True))
    arrays = []
    for child in field.children:
        stored = _find(values.type, child)
        arrays.append(
            pa.nulls(len(values), child.type)
            if stored is None
            else _conform(parts[stored.name], child)
        )
    mask = values.is_null() if values.null_count else None
    return pa.StructArray.from_arrays(arrays, fields=list(field.type), mask=mask)


def _conformed_map(values: pa.MapArray, field: TableField) -> pa.Array:
    entries = pa.StructArray.from_arrays([values.keys, values.items], names=["key", "value"])
    lists = pa.ListArray.from_arrays(values.offsets, entries)
    key, value = field.children
    keys, items = lists.flatten().flatten()
    arrays = _conform(keys, key), _conform(items, value)
    return pa.MapArray.from_arrays(_offsets(lists, values), *arrays)


def _offsets(lists: pa.Array, nulls_of: pa.Array) -> pa.Array:
    """Return the offsets of flattened lists; null, for a null list, where `nulls_of` is null."""
    lengths = np.asarray(lists.value_lengths().fill_null(0))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    mask = np.concatenate([np.asarray(nulls_of.is_null()), [False]])
    return pa.array(offsets, pa.int32(), mask=mask if nulls_of.null_count else None)


def _is_list(type_: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_list(type_) or types.is_large_list(type_) or types.is_fixed_size_list(type_)
    )


#: The unit to read them in. Microseconds cover the years 1 to 9999, nanoseconds 1677 to 2262; other
#: times wrap around.
Int96Unit: TypeAlias = Literal["us", "ns"]

# 2**64 nanoseconds are _WRAP_US microseconds and _WRAP_REST_NS nanoseconds.
_WRAP_US, _WRAP_REST_NS = divmod(2**64, 1000)
NS_MIN_US, NS_MAX_US = -(2**63) // 1000, (2**63 - 1) // 1000


def with_times_repaired(
    columns: Mapping[str, pa.Array],
    metadata: pq.FileMetaData,
    read_as_ns: Callable[[list[str]], pa.Table],
) -> dict[str, pa.Array]:
    """Repair times before 1970 in columns whose INT96 timestamps were read as microseconds.

    Arrow 12 to 18, at least, writes the time of day of such times as a negative number, which the
    format reads as an unsigned one: they come out 2**64 nanoseconds late. Reading them as
    nanoseconds, which Arrow keeps modulo 2**64, distinguishes them from correct times: the two
    readings differ only where a time was late, or has fractions of microseconds; and Arrow writes
    such fractions only within the range of nanoseconds, 1677 to 2262. So a time that differs and
    is outside that range was late.

    What cannot be distinguished is kept: times of the years 1093 to 1677, and one in a thousand of
    the times with fractions of microseconds.

    Parameters
    ----------
    columns : mapping of str to pyarrow.Array
        Some rows of a file.
    metadata : pyarrow.parquet.FileMetaData
        The footer of the file.
    read_as_ns : callable
        Reads columns of the same rows with INT96 timestamps as nanoseconds.
    """
    repaired = dict(columns)
    if _is_of_arrow(metadata):
        suspects = [name for name in columns if _is_suspect(columns[name])]
        suspects = suspects and [name for name in suspects if _is_int96(name, metadata)]
        if suspects:
            exact = read_as_ns(suspects)
            for name in suspects:
                repaired[name] = _repaired(columns[name], exact[name].combine_chunks())
    return repaired


def _is_of_arrow(metadata: pq.FileMetaData) -> bool:
    try:
        return (metadata.created_by or "").startswith("parquet-cpp-arrow")
    except UnicodeDecodeError:  # the name of another writer, or damaged: the columns can be read
        return False


def _is_int96(name: str, metadata: pq.FileMetaData) -> bool:
    columns = (metadata.schema.column(number) for number in range(metadata.num_columns))
    return any(
        column.physical_type == "INT96"
        and (column.path == name or column.path.startswith(f"{name}.list."))
        for column in columns
    )


def _is_suspect(times: pa.Array) -> bool:
    is_list = pa.types.is_list(times.type)
    if not pa.types.is_timestamp(times.type.value_type if is_list else times.type):
        return False
    if is_list:
        times = times.flatten()
    bounds = pc.min_max(times.cast(pa.int64()))
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    return low is not None and (low < NS_MIN_US or high > NS_MAX_US)


def _repaired(times: pa.Array, exact: pa.Array) -> pa.Array:
    if pa.types.is_list(times.type):
        lengths = np.asarray(times.value_lengths().fill_null(0))
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
        elements = _repaired(times.flatten(), exact.flatten())
        return pa.ListArray.from_arrays(offsets, elements, times.type, mask=times.is_null())
    valid = np.asarray(times.is_valid())
    us = _numbers(times).copy()
    rest = _numbers(exact).view(np.uint64) - us.view(np.uint64) * np.uint64(1000)
    late = valid & (rest != 0) & ((us < NS_MIN_US) | (us > NS_MAX_US))
    us[late] -= _WRAP_US + (rest[late] < _WRAP_REST_NS)
    return pa.array(us, mask=~valid).cast(times.type)


def _numbers(times: pa.Array) -> npt.NDArray[np.int64]:
    return np.asarray(times.cast(pa.int64()).fill_null(0))
