"""Selectors, which choose row groups by an index from `build_rowgroup_index`.

The names and signatures are the same as in ``petastorm.selectors``. A selector chooses whole row
groups, so rows without the value are also returned.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping
from typing import Any

from mdstorm._selection import load_row_group_index
from mdstorm.errors import InvalidArgumentError
from mdstorm_backend.datasets import SampleDataset

__all__ = [
    "IntersectIndexSelector",
    "RowGroupSelectorBase",
    "SingleIndexSelector",
    "UnionIndexSelector",
]


class RowGroupSelectorBase(abc.ABC):
    """Base class for selectors."""

    @abc.abstractmethod
    def get_index_names(self) -> list[str]:
        """Return the names of the indexes that `select_row_groups` uses."""

    @abc.abstractmethod
    def select_row_groups(self, index_dict: Mapping[str, Any]) -> set[int]:
        """Return the positions of the row groups to read, given a dict of indexers by name."""


class SingleIndexSelector(RowGroupSelectorBase):
    """Selects row groups that contain at least one of the given values.

    Parameters
    ----------
    index_name : str
        Name of the index.
    values_list : iterable
        The values. For a `FieldNotNullIndexer`, pass a list with any single value.
    """

    def __init__(self, index_name: str, values_list: Iterable[Any]) -> None:
        self._index_name = index_name
        self._values_to_select = values_list

    def get_index_names(self) -> list[str]:
        """Return a list with the name of the index."""
        return [self._index_name]

    def select_row_groups(self, index_dict: Mapping[str, Any]) -> set[int]:
        """Return the positions of the row groups that contain one of the values."""
        indexer = index_dict[self._index_name]
        return set().union(*map(indexer.get_row_group_indexes, self._values_to_select))


class _SeveralSelectors(RowGroupSelectorBase):
    """Base class for selectors that combine several others."""

    def __init__(self, single_index_selectors: list[Any]) -> None:
        selectors = list(single_index_selectors)
        if not selectors or not all(isinstance(s, RowGroupSelectorBase) for s in selectors):
            raise InvalidArgumentError(
                f"{type(self).__name__} takes a list of at least one selector, found "
                f"{single_index_selectors!r}"
            )
        self._single_index_selectors = selectors

    def get_index_names(self) -> list[str]:
        """Return the names of all selectors' indexes."""
        return [name for each in self._single_index_selectors for name in each.get_index_names()]


class IntersectIndexSelector(_SeveralSelectors):
    """Selects the row groups that all of the given selectors choose.

    Parameters
    ----------
    single_index_selectors : list of RowGroupSelectorBase
        At least one selector.

    Raises
    ------
    InvalidArgumentError
        If the list is empty or contains anything other than selectors.
    """

    def select_row_groups(self, index_dict: Mapping[str, Any]) -> set[int]:
        """Return the positions of the row groups that all selectors choose."""
        found = (each.select_row_groups(index_dict) for each in self._single_index_selectors)
        return set.intersection(*map(set, found))


class UnionIndexSelector(_SeveralSelectors):
    """Selects the row groups that at least one of the given selectors chooses.

    Parameters
    ----------
    single_index_selectors : list of RowGroupSelectorBase
        At least one selector.

    Raises
    ------
    InvalidArgumentError
        If the list is empty or contains anything other than selectors.
    """

    def select_row_groups(self, index_dict: Mapping[str, Any]) -> set[int]:
        """Return the positions of the row groups that at least one selector chooses."""
        found = (each.select_row_groups(index_dict) for each in self._single_index_selectors)
        return set().union(*found)


def select_row_groups(selector: RowGroupSelectorBase, source: SampleDataset) -> SampleDataset:
    """Return a dataset with only the row groups, or MDS shards, that a selector chooses.

    Parameters
    ----------
    selector : RowGroupSelectorBase
        The user's selector.
    source : SampleDataset
        The whole dataset, because indexes contain positions among all its row groups.

    Raises
    ------
    InvalidArgumentError
        If the selector needs indexes that the dataset does not have; also ValueError.
    """
    indexes = load_row_group_index(source)
    missing = set(selector.get_index_names()) - set(indexes)
    if missing:
        raise InvalidArgumentError(
            f"Some of required indexes {sorted(selector.get_index_names())} are not available in "
            f"{source.url}, which has {sorted(indexes)}: build them with build_rowgroup_index"
        )
    chosen = selector.select_row_groups(indexes)
    numbers = [number for number in range(len(source.shard_sizes)) if number in chosen]
    return source.with_shards(numbers)
