"""Find the columns of a dataset in its files, where names and types may differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend.errors import CorruptDatasetError
from mdstorm_backend.format.values.arrow_types import plain_type, plain_values
from mdstorm_backend.tables.snapshot import TableField

_FIELD_ID = b"PARQUET:field_id"


@dataclass(frozen=True)
class StoredColumns:
    """How the columns of a dataset are stored in its files.

    Attributes
    ----------
    schema : pyarrow.Schema
        The columns of the dataset.
    fields : mapping of str to TableField
        The columns of a table, which files may store by other names, in narrower types, or not at
        all. If empty, the files have exactly the columns of the dataset.
    """

    schema: pa.Schema
    fields: Mapping[str, TableField]

    def names_in(self, file: pa.Schema, columns: Sequence[str], url: str) -> dict[str, str]:
        """Map columns of the dataset to their names in a file; omits columns that it lacks.

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
            If the table finds columns by field id, and those of the file have none.
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
        """Return `names_in` for only the columns that the file stores in the dataset's type."""
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
        """Convert columns of a file to those of the dataset: all of them, in the dataset's types.

        Parameters
        ----------
        stored : mapping of str to pyarrow.Array
            Columns of the file, by their names in the dataset.
        columns : sequence of str
            The columns to return; columns that the file lacks are filled with null.
        rows : int
            Number of rows.
        url : str
            The file, for error messages.

        Raises
        ------
        CorruptDatasetError
            If values of a column cannot be converted to its type.
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
        """Repeat the value of a partition column for `rows` rows."""
        return pa.repeat(pa.scalar(value, self.schema.field(name).type), rows)


def filtered(values: pa.Array, mask: npt.NDArray[np.bool_]) -> pa.Array:
    """Return the values where `mask` is True."""
    if mask.all():
        return values
    try:
        return values.filter(pa.array(mask))
    except pa.ArrowNotImplementedError:  # string views
        return values.cast(plain_type(values.type)).filter(pa.array(mask))


def _find(file: pa.Schema | pa.StructType, wanted: TableField) -> pa.Field | None:
    """Find a field of a table among the fields of a file, or of a struct in it."""
    for field in file:
        number = None if wanted.field_id is None else _number(field)
        names = (wanted.stored_name,) if wanted.field_id is None else wanted.names_without_id
        if (field.name in names) if number is None else number == wanted.field_id:
            return field
    return None


def _number(field: pa.Field) -> int | None:
    """Return the field id that a file stores, None if it has none."""
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
    """Convert values to the type of a field, with the table's names for nested fields."""
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
    """Return the offsets of flattened lists, null where `nulls_of` is null to make null lists."""
    lengths = np.asarray(lists.value_lengths().fill_null(0))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    mask = np.concatenate([np.asarray(nulls_of.is_null()), [False]])
    return pa.array(offsets, pa.int32(), mask=mask if nulls_of.null_count else None)


def _is_list(type_: pa.DataType) -> bool:
    types = pa.types
    return bool(
        types.is_list(type_) or types.is_large_list(type_) or types.is_fixed_size_list(type_)
    )
