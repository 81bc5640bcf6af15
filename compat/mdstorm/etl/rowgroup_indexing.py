"""Build and load row-group indexes, mirroring ``petastorm.etl.rowgroup_indexing``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from mdstorm._datasets import ROW_GROUPS_INDEX_KEY, checked_urls, location_of, opened
from mdstorm._petastorm_names import other_names
from mdstorm._rows import cells
from mdstorm._selection import Indexer, RowGroupIndexerBase, load_row_group_index, save_indexers
from mdstorm.errors import ArgumentTypeError, InvalidArgumentError
from mdstorm_backend.base import check_list
from mdstorm_backend.datasets import Dataset
from mdstorm_backend.format import Column, Values
from mdstorm_backend.kinds import open_stored
from mdstorm_backend.parquet import ParquetDataset

__all__ = ["ROWGROUPS_INDEX_KEY", "PieceInfo", "build_rowgroup_index", "get_row_group_indexes"]

__getattr__ = other_names(__name__)


class PieceInfo(NamedTuple):
    """A row group, as identified by Petastorm's index jobs.

    Attributes
    ----------
    piece_index : int
        Index of the row group in the dataset.
    path : str
        Path of the file.
    row_group : int
        Index of the row group in the file.
    partition_keys : sequence of tuple
        Names and values of the file's Hive partitions.
    """

    piece_index: int
    path: str
    row_group: int
    partition_keys: Any


#: Key of the row-group indexes in a dataset's metadata.
ROWGROUPS_INDEX_KEY = ROW_GROUPS_INDEX_KEY


def build_rowgroup_index(
    dataset_url: str,
    spark_context: Any,
    indexers: Sequence[RowGroupIndexerBase],
    hdfs_driver: str = "libhdfs3",
) -> None:
    """Index the row groups of a Parquet dataset, or the shards of an MDS dataset.

    For a Parquet dataset, indexes are written to ``_common_metadata``, where Petastorm also finds
    them. For an MDS dataset, they are written to a file named ``_rowgroup_index`` alongside the
    shards. Existing indexes are replaced.

    Parameters
    ----------
    dataset_url : str
        Directory of the dataset.
    spark_context : pyspark.SparkContext or None
        Not used, because this process reads the indexed fields.
    indexers : sequence of SingleFieldIndexer or FieldNotNullIndexer
        The indexes to build; selectors refer to them by name.
    hdfs_driver : str
        Not used.

    Raises
    ------
    ArgumentTypeError
        If an indexer is not an instance of these classes.
    InvalidArgumentError
        If there are no indexers, two have the same name, or one is for a field that does not exist.
    """
    checked = _checked(indexers)
    stored = open_stored(checked_urls(dataset_url))
    source = opened(stored).source
    fields = sorted({name for indexer in indexers for name in indexer.column_names})
    unknown = [name for name in fields if name not in source.schema]
    if unknown:
        raise InvalidArgumentError(
            f"fields {unknown} cannot be indexed: {dataset_url} has {list(source.schema.names)}"
        )
    for number, size in enumerate(source.shard_sizes):
        if not size:
            continue
        batch = source.shard(number).read(np.arange(size), fields, exact_nulls=True)
        columns = [_cells(batch[name], source.schema[name]) for name in fields]
        rows = [dict(zip(fields, row, strict=True)) for row in zip(*columns, strict=True)]
        for indexer in checked.values():
            indexer.build_index(rows, number)
    save_indexers(stored, checked)


def get_row_group_indexes(dataset: Any) -> dict[str, Indexer]:
    """Return a dataset's row-group indexes by name.

    Parameters
    ----------
    dataset : str, Dataset, ParquetDataset or pyarrow.parquet.ParquetDataset
        The dataset, or its URL. The filters of a pyarrow dataset are ignored.

    Raises
    ------
    ArgumentTypeError
        If `dataset` is not one of these types; also TypeError.
    InvalidArgumentError
        If the dataset has no indexes; also ValueError.
    """
    if isinstance(dataset, str):
        dataset = open_stored(checked_urls(dataset))
    elif hasattr(dataset, "fragments"):  # a pyarrow dataset
        dataset = open_stored(location_of(dataset).url, filesystem=dataset.filesystem)
    if not isinstance(dataset, (Dataset, ParquetDataset)):
        raise ArgumentTypeError(
            f"get_row_group_indexes takes a dataset or its URL, found {dataset!r}"
        )
    return load_row_group_index(dataset)


def _checked(indexers: Sequence[Any]) -> dict[str, Indexer]:
    check_list("indexers", indexers)
    by_name: dict[str, Indexer] = {}
    for indexer in indexers:
        if not isinstance(indexer, Indexer):
            raise ArgumentTypeError(
                f"indexers must be instances of SingleFieldIndexer, FieldNotNullIndexer or classes "
                f"derived from them, whose indexes can be stored; found {indexer!r}"
            )
        if indexer.index_name in by_name:
            raise InvalidArgumentError(
                f"two indexers have the name {indexer.index_name!r}: give each its own name"
            )
        by_name[indexer.index_name] = indexer
    if not by_name:
        raise InvalidArgumentError("indexers is empty: pass one for each field to index")
    return by_name


def _cells(values: Values, column: Column) -> list[Any]:
    """Return the values of a column, with None for null, also among floating-point numbers."""
    of_rows = cells(values, column)
    if isinstance(values, np.ndarray):
        return of_rows
    nulls = values.is_null().to_pylist()
    return [None if is_null else cell for cell, is_null in zip(of_rows, nulls, strict=True)]
