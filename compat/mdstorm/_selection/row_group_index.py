"""Indexers, which record the row groups that contain each value of a field.

Names, signatures and results are the same as in ``petastorm.etl.rowgroup_indexers``. For MDS
datasets, "row group" means a shard.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from mdstorm._datasets import (
    COMMON_METADATA,
    ROW_GROUPS_INDEX_KEY,
    add_metadata,
    check_no_table,
    common_metadata_of,
    has_stale_index,
    index_entries,
)
from mdstorm._petastorm_names import public
from mdstorm._pickles import StoredIndex, dump_indexes, load_indexes
from mdstorm.errors import ArgumentTypeError, InvalidArgumentError
from mdstorm_backend.datasets import SampleDataset
from mdstorm_backend.parquet import ParquetDataset

INDEX_FILE = "_rowgroup_index"


@public("mdstorm.etl")
class RowGroupIndexerBase(abc.ABC):
    """Base class for all indexers."""

    @property
    @abc.abstractmethod
    def index_name(self) -> str:
        """Name that selectors use to refer to the index."""

    @property
    @abc.abstractmethod
    def column_names(self) -> list[str]:
        """Fields that are indexed."""

    @property
    @abc.abstractmethod
    def indexed_values(self) -> list[Any]:
        """Values in the index."""

    @abc.abstractmethod
    def get_row_group_indexes(self, value_key: Any) -> set[int]:
        """Return the numbers of the row groups that contain a value; empty if it is not indexed."""

    @abc.abstractmethod
    def build_index(self, decoded_rows: Sequence[Mapping[str, Any]], piece_index: int) -> Any:
        """Add the rows in row group `piece_index`."""

    @abc.abstractmethod
    def __add__(self, other: Any) -> Any:
        """Merge another indexer of the same field."""


class _FieldIndexer(RowGroupIndexerBase):
    """An index for one field."""

    def __init__(self, index_name: str, index_field: str) -> None:
        self._index_name = index_name
        self._column_name = index_field

    @property
    def index_name(self) -> str:
        """Name that selectors use to refer to the index."""
        return self._index_name

    @property
    def column_names(self) -> list[str]:
        """The field, in a list."""
        return [self._column_name]

    def __add__(self, other: Any) -> Any:
        """Merge another indexer of the same field, in place.

        Raises
        ------
        ArgumentTypeError
            If the other indexer is of a different class.
        InvalidArgumentError
            If the other indexer is for a different field.
        """
        if not isinstance(other, type(self)):
            raise ArgumentTypeError(
                f"Make sure Spark map function return the same indexer type: {other!r} cannot be "
                f"added to a {type(self).__name__}"
            )
        if self._column_name != other._column_name:
            raise InvalidArgumentError(
                "Make sure indexers in Spark map function index the same fields: found "
                f"{self._column_name!r} and {other._column_name!r}"
            )
        self._mdstorm_merge(other)
        return self

    def build_index(self, decoded_rows: Sequence[Mapping[str, Any]], piece_index: int) -> Any:
        """Add the rows in row group `piece_index`, given as dicts.

        Raises
        ------
        InvalidArgumentError
            If there are no rows.
        """
        if not decoded_rows:
            raise InvalidArgumentError(
                f"Cannot build index for empty rows, column {self._column_name!r}"
            )
        cells = (row[self._column_name] for row in decoded_rows)
        values = (v for c in cells for v in (c.reshape(-1) if isinstance(c, np.ndarray) else [c]))
        return self._mdstorm_add(values, piece_index)

    @abc.abstractmethod
    def _mdstorm_add(self, values: Iterable[Any], piece_index: int) -> Any:
        """Add values in row group `piece_index`, with None for null."""

    @abc.abstractmethod
    def _mdstorm_merge(self, other: Any) -> None:
        """Add the contents of another indexer."""


@public("mdstorm.etl.rowgroup_indexers")
class SingleFieldIndexer(_FieldIndexer):
    """An index of the row groups that contain each value of a field, or each array element.

    Nulls are not indexed.

    Parameters
    ----------
    index_name : str
        Name that selectors use to refer to the index.
    index_field : str
        The field.
    """

    def __init__(self, index_name: str, index_field: str) -> None:
        super().__init__(index_name, index_field)
        self._index_data: dict[Any, set[int]] = {}

    @property
    def indexed_values(self) -> list[Any]:
        """All indexed values of the field."""
        return list(self._index_data)

    def get_row_group_indexes(self, value_key: Any) -> set[int]:
        """Return the numbers of the row groups that contain a value; empty if it is not indexed."""
        return self._index_data.get(value_key, set())

    def _mdstorm_add(self, values: Iterable[Any], piece_index: int) -> dict[Any, set[int]]:
        for value in values:
            if value is not None:
                self._index_data.setdefault(value, set()).add(piece_index)
        return self._index_data

    def _mdstorm_merge(self, other: SingleFieldIndexer) -> None:
        for value, numbers in other._index_data.items():
            self._index_data.setdefault(value, set()).update(numbers)


@public("mdstorm.etl.rowgroup_indexers")
class FieldNotNullIndexer(_FieldIndexer):
    """An index of the row groups that contain non-null values of a field.

    Parameters
    ----------
    index_name : str
        Name that selectors use to refer to the index.
    index_field : str
        The field.
    """

    def __init__(self, index_name: str, index_field: str) -> None:
        super().__init__(index_name, index_field)
        self._index_data: set[int] = set()

    @property
    def indexed_values(self) -> list[Any]:
        """A description of the index, because it does not store values."""
        return ["Field is Not Null"]

    def get_row_group_indexes(self, value_key: Any = None) -> set[int]:
        """Return the numbers of the row groups with non-null values; `value_key` is ignored."""
        return self._index_data

    def _mdstorm_add(self, values: Iterable[Any], piece_index: int) -> set[int]:
        if any(value is not None for value in values):
            self._index_data.add(piece_index)
        return self._index_data

    def _mdstorm_merge(self, other: FieldNotNullIndexer) -> None:
        self._index_data |= other._index_data


Indexer = SingleFieldIndexer | FieldNotNullIndexer


def save_indexers(dataset: SampleDataset, indexers: Mapping[str, Indexer]) -> None:
    """Write a dataset's indexes, replacing existing ones.

    Raises
    ------
    InvalidArgumentError
        If a field has values that cannot be stored in an index.
    CorruptDatasetError
        If the metadata of the Parquet files is damaged.
    UnsupportedTableError
        If the dataset is a Delta or Iceberg table.
    """
    stored = {
        name: StoredIndex(kind, name, indexer.column_names[0], indexer._index_data)
        for name, indexer in indexers.items()
        for kind, class_ in _CLASSES.items()
        if isinstance(indexer, class_)  # subclasses are stored as their base class
    }
    pickled = dump_indexes(stored)
    if isinstance(dataset, ParquetDataset):
        check_no_table(dataset)
        add_metadata(dataset, index_entries(dataset, pickled))
    else:
        dataset.location.write(INDEX_FILE, [_first_line(dataset), pickled])


def load_row_group_index(dataset: SampleDataset) -> dict[str, Indexer]:
    """Return a dataset's indexes by name.

    Raises
    ------
    InvalidArgumentError
        If the dataset has no indexes, or has changed since they were built; also a ValueError.
    CorruptDatasetError
        If the metadata of the Parquet files is damaged.
    UnsafePickleError
        If the pickle is not one that Petastorm would have written.
    """
    if isinstance(dataset, ParquetDataset):
        entries = common_metadata_of(dataset)
        if has_stale_index(dataset, entries):
            raise _stale(dataset, COMMON_METADATA)
        stored = entries.get(ROW_GROUPS_INDEX_KEY)
    else:
        stored = _of_mds(dataset)
    if stored is None:
        raise InvalidArgumentError(
            f"Row groups index is not available at {dataset.url}: build it with "
            "mdstorm.etl.rowgroup_indexing.build_rowgroup_index, or leave rowgroup_selector out"
        )
    indexers: dict[str, Indexer] = {}
    for name, index in load_indexes(stored).items():
        indexers[name] = _CLASSES[index.kind](index.index_name, index.column_name)
        indexers[name]._index_data = index.row_groups
    return indexers


def _of_mds(dataset: SampleDataset) -> bytes | None:
    try:
        content = bytes(dataset.location.read(INDEX_FILE))
    except (FileNotFoundError, NotADirectoryError):
        return None
    first_line = _first_line(dataset)
    if not content.startswith(first_line):
        raise _stale(dataset, INDEX_FILE)
    return content[len(first_line) :]


def _first_line(dataset: SampleDataset) -> bytes:
    """Return the first line of the index file, which identifies the indexed shards."""
    return f"{dataset.content_identity()}\n".encode("ascii")


def _stale(dataset: SampleDataset, name: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"Row groups index is not available at {dataset.url}: the one in "
        f"{dataset.location.file_url(name)} was built for different row groups, or before the "
        "dataset was written again or copied. Build it again with build_rowgroup_index"
    )


_CLASSES: dict[str, type[Indexer]] = {
    "SingleFieldIndexer": SingleFieldIndexer,
    "FieldNotNullIndexer": FieldNotNullIndexer,
}
