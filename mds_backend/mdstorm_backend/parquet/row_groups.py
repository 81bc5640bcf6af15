"""Descriptions of Parquet files and row groups, before any row is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

#: Value of a Hive partition column in one directory: None for Hive's default partition.
PartitionValue: TypeAlias = int | str | None


@dataclass(frozen=True, slots=True)
class ParquetFileInfo:
    """One file.

    Attributes
    ----------
    name : str
        Its path relative to the dataset's location.
    size : int
        Its size in bytes.
    identity : str
        Its state according to the storage: a time or a tag; "" if the storage gives none.
    """

    name: str
    size: int
    identity: str = ""


@dataclass(frozen=True, slots=True)
class RowGroup:
    """One row group: a shard.

    Attributes
    ----------
    file_url : str
        URL of its file.
    path : str
        Path of the file relative to the dataset's location.
    ordinal : int
        Its number in the file.
    num_rows : int
        Rows that it holds.
    partition : mapping of str to int, str or None
        Values of the Hive partition columns.
    nbytes : int
        Bytes of its values, uncompressed.
    """

    file_url: str
    path: str
    ordinal: int
    num_rows: int
    partition: Mapping[str, PartitionValue] = field(default_factory=dict)
    nbytes: int = 0
