"""`TableSnapshot`: which files and rows of a table are alive in a version."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from mdstorm_backend.tables.deletion_vectors import DeadRows
from mdstorm_backend.tables.delta_fields import TableField


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
        When it was written, in milliseconds.
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
        The version.
    fields : tuple of TableField
        The columns, in the order of the table.
    partition_columns : tuple of str
        Those whose values are in the log.
    files : tuple of LiveFile
        The files in the order of their paths.
    """

    url: str
    version: int
    fields: tuple[TableField, ...]
    partition_columns: tuple[str, ...]
    files: tuple[LiveFile, ...]
