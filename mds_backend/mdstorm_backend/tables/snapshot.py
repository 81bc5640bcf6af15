"""`AsOf` chooses a version of a table; `TableSnapshot` holds that version's columns and files."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from mdstorm_backend import errors
from mdstorm_backend.base import check_integer
from mdstorm_backend.format.values.arrow_types import SparkType, arrow_type, simple_name
from mdstorm_backend.storage import Location

#: Strings of this form are rejected as names of branches and tags: a number may have been meant.
_NUMBER = re.compile(r"\s*[+-]?[\d.]+\s*")

#: Positions of dead rows in a file, ascending.
DeadRows = npt.NDArray[np.int64]
NO_ROWS: DeadRows = np.empty(0, np.int64)


@dataclass(frozen=True)
class AsOf:
    """The requested version of a table; the newest one if neither attribute is given.

    Attributes
    ----------
    version : int, str or None
        Number of the version; for an Iceberg table, the id of a snapshot, or the name of a branch
        or tag.
    timestamp : str, datetime.datetime or None
        Choose the version that was the newest at this time. ISO 8601, such as ``2024-05-31`` or
        ``2024-05-31T12:00:00+02:00``; in UTC unless it has an offset.

    Raises
    ------
    InvalidArgumentError
        If both are given, or one is not a valid version or time.
    ArgumentTypeError
        If one of them has a different type.
    """

    version: int | str | None = None
    timestamp: str | datetime | None = None

    def __post_init__(self) -> None:
        version, timestamp = self.version, self.timestamp
        if version is not None and timestamp is not None:
            raise errors.InvalidArgumentError(
                f"version={version!r} and timestamp={timestamp!r} both choose the version of a "
                "table: pass only one of them"
            )
        if not (isinstance(version, str) and version.strip() and not _NUMBER.fullmatch(version)):
            check_integer("version", version, lowest=0)
        if timestamp is not None:
            self.time  # noqa: B018  # checks it

    def __bool__(self) -> bool:
        return self.version is not None or self.timestamp is not None

    def __str__(self) -> str:
        if self.version is not None:
            return f"version={self.version!r}"
        return f"timestamp={str(self.timestamp)!r}"

    @property
    def time(self) -> datetime:
        """The timestamp, in UTC."""
        timestamp = self.timestamp
        if isinstance(timestamp, str):
            try:  # Python 3.10 does not parse the Z
                timestamp = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", timestamp.strip()))
            except ValueError as error:
                raise errors.InvalidArgumentError(
                    f"timestamp={timestamp!r} is not a time: write it as 2024-05-31 or "
                    "2024-05-31T12:00:00+02:00"
                ) from error
        if not isinstance(timestamp, datetime):
            raise errors.ArgumentTypeError(
                f"timestamp must be a string in the form of ISO 8601 or a datetime, found "
                f"{timestamp!r}"
            )
        aware = (
            timestamp if timestamp.tzinfo is not None else timestamp.replace(tzinfo=timezone.utc)
        )
        return aware.astimezone(timezone.utc)


def check_as_of(as_of: AsOf | None, url: str) -> None:
    """Check that no table version is requested for files that are not a table.

    Raises
    ------
    InvalidArgumentError
        If `as_of` chooses a version.
    """
    if as_of:
        raise errors.InvalidArgumentError(
            f"{as_of} chooses a version of a table, but {url} is not a Delta or Iceberg table: "
            f"leave out {str(as_of).partition('=')[0]}="
        )


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A data file that belongs to a version of a table; some of its rows may be dead.

    Attributes
    ----------
    path : str
        Path relative to the table, or the URL of a file that is elsewhere.
    size : int
        Size in bytes.
    modified : int
        Time of writing, in milliseconds; 0 if not recorded.
    num_rows : int or None
        Rows of the file, including dead ones; None if not recorded.
    partition : mapping of str to value
        Values of the partition columns.
    nulls : mapping of str to (int or None)
        Null counts, including dead rows, of the columns that may have nulls; None if not recorded.
    dead : array of int64
        Positions of dead rows, ascending.
    """

    path: str
    size: int
    modified: int
    num_rows: int | None
    partition: Mapping[str, Any]
    nulls: Mapping[str, int | None]
    dead: DeadRows


def is_absolute(path: str) -> bool:
    """Whether a path in a log is absolute, as in a shallow clone."""
    return re.match(r"[A-Za-z][A-Za-z0-9+.-]*:/|/", path) is not None


@dataclass(frozen=True)
class TableSnapshot:
    """A version of a table: its columns, files and live rows.

    Attributes
    ----------
    location : Location
        Directory of the table, to which paths of files are relative.
    version : int
        Number of the version, or the id of the snapshot.
    fields : tuple of TableField
        The columns, in the order of the table.
    partition_columns : tuple of str
        Columns whose values are recorded in the log for each file.
    files : tuple of LiveFile
        The files in the order of their paths.
    root : Location or None
        The table's own directory, see `SampleDataset`; None if only its metadata, which whoever
        writes to the table controls, says where the table is.
    """

    location: Location
    version: int
    fields: tuple[TableField, ...]
    partition_columns: tuple[str, ...]
    files: tuple[LiveFile, ...]
    root: Location | None = None


def unsupported(url: str, what: str, kind: str = "delta") -> errors.UnsupportedTableError:
    """Return the error for a table that cannot be read; `what` completes "a table that …"."""
    found = "is a Delta table that" if kind == "delta" else "is an Iceberg table that"
    message = f"{url} {found} {what}. {read_by_spark(url, kind)}"
    return errors.UnsupportedTableError(message, url=url)


def read_by_spark(url: str, kind: str = "delta") -> str:
    """Return the advice to read a table with Spark; `kind` is Spark's name for its format."""
    return (
        "Read it with Spark and convert the frame: "
        f"make_spark_converter(spark.read.format({kind!r}).load({url!r}))"
    )


class UnsupportedType(pa.ExtensionType):  # type: ignore[misc]  # pyarrow has no annotations
    """The type of a table's column that cannot be read, named as in messages.

    A schema with it still has the column, so that it can be named with its type.
    """

    def __init__(self, name: str) -> None:
        super().__init__(pa.null(), name)

    def __arrow_ext_serialize__(self) -> bytes:
        return str(self).encode()

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, name: bytes) -> UnsupportedType:
        return cls(name.decode())

    def __str__(self) -> str:
        return str(self.extension_name)

    def __repr__(self) -> str:
        # Fingerprints of tables include it, and are in the states of earlier versions.
        return repr(pa.null())


def type_of_values(spark_type: SparkType) -> pa.DataType:
    """Return the Arrow type for a table's type, given as Spark's JSON; see `UnsupportedType`."""
    if spark_type in ("null", "void"):
        return pa.null()
    try:
        return arrow_type(spark_type)
    except KeyError:
        return UnsupportedType(simple_name(spark_type))


@dataclass(frozen=True)
class TableField:
    """A column of a table, or a part of a nested column.

    Attributes
    ----------
    name : str
        Name in the table.
    type : pyarrow.DataType
        Type of the values, or an `UnsupportedType`.
    stored_name : str
        Name in the files.
    field_id : int or None
        Id in the files, if the field is found by id and not by name.
    nullable : bool
        Whether the field may hold nulls.
    children : tuple of TableField
        The fields of a struct; the element of a list; key and value of a map.
    names_without_id : tuple of str
        Names in files whose fields have no ids; empty if it cannot be found there.
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
        """Whether the type is supported, including nested types."""
        return not isinstance(self.type, UnsupportedType)


def null_counts(
    fields: Iterable[TableField],
    partition: Container[str],
    counts: Mapping[Any, int | None],
    key: Callable[[TableField], Any],
) -> dict[str, int | None]:
    """Return a file's nonzero null counts by column; unknown counts are None.

    `counts` holds the recorded counts, by the `key` of their fields.
    """
    found = {
        field.name: None if field.children else counts.get(key(field))
        for field in fields
        if field.nullable and field.name not in partition
    }
    return {name: count for name, count in found.items() if count != 0}
