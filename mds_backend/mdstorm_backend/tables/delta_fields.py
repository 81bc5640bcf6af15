"""The columns of a Delta table: their types, and how they are found in its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from mdstorm_backend.format.values.arrow_types import arrow_type

_ID = "delta.columnMapping.id"
_STORED_NAME = "delta.columnMapping.physicalName"


@dataclass(frozen=True)
class TableField:
    """A column of a table, or a part of a nested one.

    Attributes
    ----------
    name : str
        Its name.
    type : pyarrow.DataType
        The type of its values; null for a type that is not known.
    stored_name : str
        Its name in the files.
    field_id : int or None
        Its number in the files, if it is found by that and not by its name.
    nullable : bool
        Whether it may hold nulls.
    children : tuple of TableField
        The fields of a struct; the element of a list; key and value of a map.
    """

    name: str
    type: pa.DataType
    stored_name: str
    field_id: int | None = None
    nullable: bool = True
    children: tuple[TableField, ...] = ()

    @property
    def is_known(self) -> bool:
        """Whether its type is known, with all that is nested in it."""
        return not pa.types.is_null(self.type)


def parse_fields(schema: Mapping[str, Any], mode: str) -> tuple[TableField, ...]:
    """Return the columns that the schema of a Delta table names.

    Parameters
    ----------
    schema : mapping
        The schema as the log has it, as JSON.
    mode : str
        The table's column mapping: ``"none"``, ``"name"`` or ``"id"``.
    """
    return tuple(_field(field, mode) for field in schema["fields"])


def _field(field: Mapping[str, Any], mode: str) -> TableField:
    metadata = field.get("metadata") or {}
    name = str(field["name"])
    stored = str(metadata.get(_STORED_NAME, name)) if mode != "none" else name
    id_ = int(metadata[_ID]) if mode == "id" and _ID in metadata else None
    return _typed(name, field["type"], mode, stored, id_, bool(field.get("nullable", True)))


def _typed(
    name: str, type_: Any, mode: str, stored: str, id_: int | None, nullable: bool
) -> TableField:
    kind = type_["type"] if isinstance(type_, Mapping) else type_
    children: tuple[TableField, ...] = ()
    if kind == "struct":
        children = parse_fields(type_, mode)
    elif kind == "array":
        element = _typed("element", type_["elementType"], mode, "element", None, True)
        children = (element,)
    elif kind == "map":
        children = (
            _typed("key", type_["keyType"], mode, "key", None, False),
            _typed("value", type_["valueType"], mode, "value", None, True),
        )
    return TableField(name, _arrow_type(kind, children), stored, id_, nullable, children)


def _arrow_type(kind: str, children: tuple[TableField, ...]) -> pa.DataType:
    if not all(child.is_known for child in children):
        return pa.null()
    types = [child.type for child in children]
    if kind == "struct":
        return pa.struct([(child.name, child.type) for child in children])
    if kind == "array":
        return pa.list_(types[0])
    if kind == "map":
        return pa.map_(*types)
    try:
        return arrow_type(kind)
    except KeyError:
        return pa.null()
