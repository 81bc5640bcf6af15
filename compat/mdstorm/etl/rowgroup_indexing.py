"""Build and load row-group indexes, mirroring ``petastorm.etl.rowgroup_indexing``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from mdstorm._datasets.petastorm_metadata import ROW_GROUPS_INDEX_KEY, location_of
from mdstorm._datasets.sources import open_urls, opened
from mdstorm._petastorm_names import other_names
from mdstorm._selection import row_group_index
from mdstorm._selection.predicate_filter import FieldRows, distinct_cells
from mdstorm._selection.row_group_index import Indexer, RowGroupIndexerBase, SingleFieldIndexer
from mdstorm.errors import ArgumentTypeError, InvalidArgumentError
from mdstorm_backend.base import check_list
from mdstorm_backend.datasets import Dataset
from mdstorm_backend.format import Column, Values
from mdstorm_backend.parquet import ParquetDataset, open_parquet
from mdstorm_backend.read import SampleSource, default_workers, map_in_threads

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
        Not used, because threads in this process read the indexed fields.
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
    found = _checked(indexers)
    stored = open_urls(dataset_url)
    source = opened(stored).source
    fields = sorted({name for indexer in indexers for name in indexer.column_names})
    unknown = [name for name in fields if name not in source.schema]
    if unknown:
        raise InvalidArgumentError(
            f"fields {unknown} cannot be indexed: {dataset_url} has {list(source.schema.names)}"
        )
    numbers = [number for number, size in enumerate(source.shard_sizes) if size]
    indexed = map_in_threads(
        lambda number: _indexed(source, number, fields, indexers), numbers, default_workers()
    )
    for number, values in zip(numbers, indexed, strict=True):
        for indexer, each in zip(found.values(), values, strict=True):
            add = indexer._mdstorm_add if _takes_values(indexer) else indexer.build_index
            add(each, number)
    row_group_index.save_indexers(stored, found)


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
        dataset = open_urls(dataset)
    elif hasattr(dataset, "fragments"):  # a pyarrow dataset
        dataset = open_parquet(location_of(dataset).url, filesystem=dataset.filesystem)
    if not isinstance(dataset, (Dataset, ParquetDataset)):
        raise ArgumentTypeError(
            f"get_row_group_indexes takes a dataset or its URL, found {dataset!r}"
        )
    return row_group_index.load_row_group_index(dataset)


def _checked(indexers: Sequence[Any]) -> dict[str, Indexer]:
    check_list("indexers", indexers)
    found: dict[str, Indexer] = {}
    for indexer in indexers:
        if not isinstance(indexer, Indexer):
            raise ArgumentTypeError(
                f"indexers must be instances of SingleFieldIndexer, FieldNotNullIndexer or classes "
                f"derived from them, whose indexes can be stored; found {indexer!r}"
            )
        if indexer.index_name in found:
            raise InvalidArgumentError(
                f"two indexers have the name {indexer.index_name!r}: give each its own name"
            )
        found[indexer.index_name] = indexer
    if not found:
        raise InvalidArgumentError("indexers is empty: pass one for each field to index")
    return found


def _indexed(
    source: SampleSource, number: int, fields: list[str], indexers: Sequence[Any]
) -> list[Any]:
    """Return each indexer's input for one row group (a column's values, or rows as dicts)."""
    rows = np.arange(source.shard_sizes[number])
    batch = source.shard(number).read(rows, fields, exact_nulls=True)
    return [
        _elements(batch[indexer.column_names[0]], source.schema.get(indexer.column_names[0]))
        if _takes_values(indexer)
        else list(FieldRows({n: batch[n] for n in indexer.column_names}, source.schema).dicts())
        for indexer in indexers
    ]


def _takes_values(indexer: Any) -> bool:
    """Whether an indexer takes a column's values: its class does not override `build_index`.

    `SingleFieldIndexer` and `FieldNotNullIndexer` inherit the same method.
    """
    return type(indexer).build_index is SingleFieldIndexer.build_index


def _elements(values: Values, column: Column | None) -> Iterable[Any]:
    """Return a column's values or array elements, without duplicates if these are quick to find."""
    if isinstance(values, np.ndarray):
        if values.dtype == object:
            return [element for value in values for element in row_group_index.elements_of(value)]
        values = values.reshape(-1)
    else:
        if pa.types.is_list(values.type):
            values, column = values.flatten(), None
        values = values.drop_null()
    return distinct_cells(values, column)[0]
