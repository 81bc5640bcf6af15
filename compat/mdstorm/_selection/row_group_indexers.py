"""Indexers: which row groups hold which values of a field.

Names, signatures and results are those of ``petastorm.etl.rowgroup_indexers``; "row group" stands
for a shard where the dataset is MDS.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from mdstorm._public import public
from mdstorm.errors import ArgumentTypeError, InvalidArgumentError


@public("mdstorm.etl.rowgroup_indexers")
class RowGroupIndexerBase(abc.ABC):
    """Base of all indexers."""

    @property
    @abc.abstractmethod
    def index_name(self) -> str:
        """Name by which selectors know the index."""

    @property
    @abc.abstractmethod
    def column_names(self) -> list[str]:
        """Fields that it is built of."""

    @property
    @abc.abstractmethod
    def indexed_values(self) -> list[Any]:
        """Values that it knows."""

    @abc.abstractmethod
    def get_row_group_indexes(self, value_key: Any) -> set[int]:
        """Return the numbers of the row groups that hold a value; none for one it does not know."""

    @abc.abstractmethod
    def build_index(self, decoded_rows: Sequence[Mapping[str, Any]], piece_index: int) -> Any:
        """Add the rows of row group `piece_index`."""

    @abc.abstractmethod
    def __add__(self, other: Any) -> Any:
        """Add what another indexer of the same field has found."""


class _FieldIndexer(RowGroupIndexerBase):
    """An index of one field."""

    def __init__(self, index_name: str, index_field: str) -> None:
        self._index_name = index_name
        self._column_name = index_field

    @property
    def index_name(self) -> str:
        """Name by which selectors know the index."""
        return self._index_name

    @property
    def column_names(self) -> list[str]:
        """The field, in a list."""
        return [self._column_name]

    def __add__(self, other: Any) -> Any:
        """Add what another indexer of the same field has found, in place.

        Raises
        ------
        ArgumentTypeError
            If the other is of another class.
        InvalidArgumentError
            If it is of another field.
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
        """Add the rows of row group `piece_index`, each a dict.

        Raises
        ------
        InvalidArgumentError
            If there are none.
        """
        if not decoded_rows:
            raise InvalidArgumentError(
                f"Cannot build index for empty rows, column {self._column_name!r}"
            )
        return self._mdstorm_add(
            (value for row in decoded_rows for value in elements_of(row[self._column_name])),
            piece_index,
        )

    @abc.abstractmethod
    def _mdstorm_add(self, values: Iterable[Any], piece_index: int) -> Any:
        """Add values of row group `piece_index`, None for null."""

    @abc.abstractmethod
    def _mdstorm_merge(self, other: Any) -> None:
        """Add the content of another indexer."""


@public("mdstorm.etl.rowgroup_indexers")
class SingleFieldIndexer(_FieldIndexer):
    """Which row groups hold each value of a field; of arrays, each element. Nulls are left out.

    Parameters
    ----------
    index_name : str
        Name by which selectors will know the index.
    index_field : str
        The field.
    """

    def __init__(self, index_name: str, index_field: str) -> None:
        super().__init__(index_name, index_field)
        self._index_data: dict[Any, set[int]] = {}

    @property
    def indexed_values(self) -> list[Any]:
        """Values that the field has anywhere."""
        return list(self._index_data)

    def get_row_group_indexes(self, value_key: Any) -> set[int]:
        """Return the numbers of the row groups that hold a value; none for one it does not know."""
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
    """Which row groups hold a value of a field that is not null.

    Parameters
    ----------
    index_name : str
        Name by which selectors will know the index.
    index_field : str
        The field.
    """

    def __init__(self, index_name: str, index_field: str) -> None:
        super().__init__(index_name, index_field)
        self._index_data: set[int] = set()

    @property
    def indexed_values(self) -> list[Any]:
        """A description: the index knows no values."""
        return ["Field is Not Null"]

    def get_row_group_indexes(self, value_key: Any = None) -> set[int]:
        """Return the numbers of the row groups with values, whatever the `value_key`."""
        return self._index_data

    def _mdstorm_add(self, values: Iterable[Any], piece_index: int) -> set[int]:
        if any(value is not None for value in values):
            self._index_data.add(piece_index)
        return self._index_data

    def _mdstorm_merge(self, other: FieldNotNullIndexer) -> None:
        self._index_data |= other._index_data


def elements_of(value: Any) -> Iterable[Any]:
    """Return the elements of an array; of another value, itself."""
    return value.reshape(-1) if isinstance(value, np.ndarray) else (value,)
