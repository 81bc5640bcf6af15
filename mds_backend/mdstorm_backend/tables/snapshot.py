"""`AsOf` and `TableSnapshot`: which version of a table to read, and its columns, files and rows."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend.base.checks import check_integer
from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError, UnsupportedURLError
from mdstorm_backend.format.values.arrow_types import arrow_type


@dataclass(frozen=True)
class AsOf:
    """The version of a table that is asked for; the newest one if neither attribute is given.

    Attributes
    ----------
    version : int or None
        Its number; of an Iceberg table, the id of a snapshot.
    timestamp : str, datetime.datetime or None
        A time: the newest version that was there then. ISO 8601, such as ``2024-05-31`` or
        ``2024-05-31T12:00:00+02:00``; in UTC unless it has an offset.

    Raises
    ------
    InvalidArgumentError
        If both are given, or one is no version or no time.
    ArgumentTypeError
        If one is of another type.
    """

    version: int | None = None
    timestamp: str | datetime | None = None

    def __post_init__(self) -> None:
        version, timestamp = self.version, self.timestamp
        if version is not None and timestamp is not None:
            raise InvalidArgumentError(
                f"version={version!r} and timestamp={timestamp!r} both choose the version of a "
                "table: pass only one of them"
            )
        check_integer("version", version, lowest=0)
        if timestamp is not None:
            self.time  # noqa: B018  # checks it

    def __bool__(self) -> bool:
        return self.version is not None or self.timestamp is not None

    def __str__(self) -> str:
        if self.version is not None:
            return f"version={self.version}"
        return f"timestamp={str(self.timestamp)!r}"

    @property
    def time(self) -> datetime:
        """The timestamp, in UTC."""
        found = self.timestamp
        if isinstance(found, str):
            found = _parsed(found)
        if not isinstance(found, datetime):
            raise ArgumentTypeError(
                f"timestamp must be a string in the form of ISO 8601 or a datetime, found {found!r}"
            )
        aware = found if found.tzinfo is not None else found.replace(tzinfo=timezone.utc)
        return aware.astimezone(timezone.utc)


def _parsed(text: str) -> datetime:
    try:  # Python 3.10 does not know the Z
        return datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text.strip()))
    except ValueError as error:
        raise InvalidArgumentError(
            f"timestamp={text!r} is not a time: write it as 2024-05-31 or 2024-05-31T12:00:00+02:00"
        ) from error


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A file of a table, some of whose rows are alive.

    Attributes
    ----------
    path : str
        Its path relative to the table, or its URL if it is elsewhere.
    size : int
        Its size in bytes.
    modified : int
        When it was written, in milliseconds; 0 if the log does not say.
    num_rows : int or None
        The rows that it holds, dead ones too; None if the log does not say.
    partition : mapping of str to value
        Values of the partition columns.
    nulls : mapping of str to (int or None)
        Null counts, dead rows included, of the columns that may have nulls; None where the log does
        not say.
    dead : array of int64, or None
        Positions of its dead rows, ascending; None without a deletion vector.
    """

    path: str
    size: int
    modified: int
    num_rows: int | None
    partition: Mapping[str, Any]
    nulls: Mapping[str, int | None]
    dead: DeadRows | None


@dataclass(frozen=True)
class TableSnapshot:
    """A version of a table.

    Attributes
    ----------
    url : str
        The table.
    version : int
        The version, or the id of the snapshot.
    fields : tuple of TableField
        The columns, in the order of the table.
    partition_columns : tuple of str
        Those whose values are in the log, for each file.
    files : tuple of LiveFile
        The files in the order of their paths.
    """

    url: str
    version: int
    fields: tuple[TableField, ...]
    partition_columns: tuple[str, ...]
    files: tuple[LiveFile, ...]


#: Positions of dead rows in a file, ascending.
DeadRows = npt.NDArray[np.int64]


_PART = r"(?:`(?:[^`]|``)+`|[A-Za-z_][A-Za-z0-9_-]*)"
_NAME = re.compile(rf"{_PART}\.{_PART}\.{_PART}")


def is_table_name(text: str) -> bool:
    """Whether a text has the form ``catalog.schema.table``; parts may be quoted by backticks."""
    return _NAME.fullmatch(text) is not None


def check_no_table_name(text: str) -> None:
    """Refuse the name of a table where a path is needed.

    Raises
    ------
    UnsupportedURLError
        If it is one; the message says how to read such a table.
    """
    if is_table_name(text):
        raise UnsupportedURLError(
            f"{text!r} looks like the name of a table in a catalog, which only Spark can resolve: "
            f"pass the path of the table's files, or spark.table({text!r}) to make_spark_converter"
        )


def read_by_spark(url: str, kind: str = "delta") -> str:
    """Return the sentence that says how Spark reads a table, by the name of its format."""
    return (
        "Read it by Spark and convert the frame: "
        f"make_spark_converter(spark.read.format({kind!r}).load({url!r}))"
    )


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
    names_without_id : tuple of str
        Its names in files whose fields have no numbers; none if there it cannot be found.
    """

    name: str
    type: pa.DataType
    stored_name: str
    field_id: int | None = None
    nullable: bool = True
    children: tuple[TableField, ...] = ()
    names_without_id: tuple[str, ...] = ()

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
    return TableField(name, nested_type(kind, children), stored, id_, nullable, children)


def nested_type(kind: str, children: tuple[TableField, ...]) -> pa.DataType:
    """Return the type of a field that has some children, by Spark's name; null if not known."""
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
