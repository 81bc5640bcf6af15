"""``rowgroup_selector``: restrict a reader to the selected row groups."""

from __future__ import annotations

from mdstorm._selection.row_group_index import load_row_group_index
from mdstorm._selection.selectors import RowGroupSelectorBase
from mdstorm._selection.shard_views import SomeShards
from mdstorm.errors import InvalidArgumentError
from mdstorm_backend.datasets import Dataset
from mdstorm_backend.parquet import ParquetDataset
from mdstorm_backend.read import SampleSource

__all__ = ["select_row_groups"]


def select_row_groups(
    selector: RowGroupSelectorBase, source: Dataset | ParquetDataset
) -> SampleSource:
    """Keep only the row groups, or MDS shards, that a selector chooses.

    Parameters
    ----------
    selector : RowGroupSelectorBase
        What the user gave.
    source : Dataset or ParquetDataset
        A whole dataset, as it was opened: indexes know the numbers of its row groups.

    Raises
    ------
    InvalidArgumentError
        If it needs indexes that the dataset does not have; also ValueError.
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
    if isinstance(source, ParquetDataset):
        return source.with_row_groups(numbers)
    return SomeShards(source, numbers)
