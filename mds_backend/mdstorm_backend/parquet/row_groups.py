"""Descriptions of Parquet files and row groups, before any row is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

#: Value of a partition column in one file, None for null: of Hive partitions an integer or a
#: string, of tables what their type is in Python.
PartitionValue: TypeAlias = Any


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
    """One row group, or a small file of a table with all of its row groups: a shard.

    Attributes
    ----------
    file_url : str
        URL of its file.
    path : str
        Path of the file relative to the dataset's location.
    ordinal : int or None
        Its number in the file; None for a file with all of its row groups.
    num_rows : int
        Rows of it that are part of the data.
    partition : mapping of str to value
        Values of the partition columns.
    nbytes : int
        Bytes of its values, uncompressed.
    dead : array of int64, or None
        Positions in it of rows that a deletion vector removed, ascending.
    """

    file_url: str
    path: str
    ordinal: int | None
    num_rows: int
    partition: Mapping[str, PartitionValue] = field(default_factory=dict)
    nbytes: int = 0
    dead: npt.NDArray[np.int64] | None = field(default=None, compare=False)

    @property
    def stored_rows(self) -> int:
        """Rows that the file holds, dead ones too."""
        return self.num_rows + (0 if self.dead is None else len(self.dead))

    def alive(self) -> npt.NDArray[np.bool_] | None:
        """Return for each stored row whether it is part of the data; None if all are."""
        if self.dead is None or not len(self.dead):
            return None
        mask = np.ones(self.stored_rows, np.bool_)
        mask[self.dead] = False
        return mask
