"""Load and store row group indexes: those of Parquet files as Petastorm does, those of MDS as JSON.

The name of the JSON file does not end in ``.json``, so that it is not taken for part of the
dataset.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np

from mdstorm._datasets.common_metadata import add_metadata, common_metadata_of
from mdstorm._datasets.metadata_keys import COMMON_METADATA, ROW_GROUPS_INDEX_KEY
from mdstorm._datasets.petastorm_metadata import check_no_table
from mdstorm._datasets.stored_index import has_stale_index, index_entries
from mdstorm._pickles.index_pickle import StoredIndex, dump_indexes, load_indexes
from mdstorm._selection.row_group_indexers import FieldNotNullIndexer, SingleFieldIndexer
from mdstorm.errors import CorruptDatasetError, InvalidArgumentError
from mdstorm_backend.datasets import Dataset
from mdstorm_backend.parquet import ParquetDataset

INDEX_FILE = "_rowgroup_index"

Indexer = SingleFieldIndexer | FieldNotNullIndexer

_VERSION = 1


def save_indexers(dataset: Dataset | ParquetDataset, indexers: Mapping[str, Indexer]) -> None:
    """Write the indexes of a dataset, replacing any that it had.

    Raises
    ------
    InvalidArgumentError
        If a field has values that cannot be kept.
    CorruptDatasetError
        If the metadata of the Parquet files are damaged.
    UnsupportedTableError
        If it is a Delta table.
    """
    if isinstance(dataset, ParquetDataset):
        check_no_table(dataset)
        stored = {
            name: StoredIndex(_kind(i), name, i.column_names[0], i._index_data)
            for name, i in indexers.items()
        }
        add_metadata(dataset, index_entries(dataset, dump_indexes(stored)))
        return
    text = json.dumps(
        {
            "version": _VERSION,
            "row_groups": dataset.fingerprint,
            "indexes": [_to_json(indexer) for indexer in indexers.values()],
        }
    )
    dataset.location.write(INDEX_FILE, [text.encode()])


def load_row_group_index(dataset: Dataset | ParquetDataset) -> dict[str, Indexer]:
    """Return the indexes of a dataset by name.

    Raises
    ------
    InvalidArgumentError
        If it has none, or they were built for another state of it; also ValueError.
    CorruptDatasetError
        If they cannot be read.
    UnsafePickleError
        If Petastorm would not have written them.
    """
    found = _of_parquet(dataset) if isinstance(dataset, ParquetDataset) else _of_mds(dataset)
    if found is None:
        raise InvalidArgumentError(
            f"Row groups index is not available at {dataset.url}: build it with "
            "mdstorm.etl.rowgroup_indexing.build_rowgroup_index, or leave rowgroup_selector out"
        )
    return found


def _of_parquet(dataset: ParquetDataset) -> dict[str, Indexer] | None:
    entries = common_metadata_of(dataset)
    if ROW_GROUPS_INDEX_KEY not in entries:
        return None
    if has_stale_index(dataset, entries):
        raise _stale(dataset, COMMON_METADATA)
    return indexers_of(load_indexes(entries[ROW_GROUPS_INDEX_KEY]))


def _of_mds(dataset: Dataset) -> dict[str, Indexer] | None:
    try:
        content = bytes(dataset.location.read(INDEX_FILE))
    except (FileNotFoundError, NotADirectoryError):
        return None
    url = dataset.location.file_url(INDEX_FILE)
    try:
        found = json.loads(content)
        if found["row_groups"] != dataset.fingerprint:
            raise _stale(dataset, INDEX_FILE)
        return {index["name"]: _from_json(index) for index in found["indexes"]}
    except InvalidArgumentError:
        raise
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise CorruptDatasetError(
            f"{url} is not a row group index ({type(error).__name__}: {error}). Build it again "
            "with build_rowgroup_index",
            url=url,
        ) from error


def indexers_of(stored: Mapping[str, StoredIndex]) -> dict[str, Indexer]:
    """Return indexes that Petastorm has pickled as indexers, by name."""
    indexers: dict[str, Indexer] = {}
    for name, index in stored.items():
        indexers[name] = _CLASSES[index.kind](index.index_name, index.column_name)
        indexers[name]._index_data = index.row_groups
    return indexers


def _stale(dataset: Dataset | ParquetDataset, name: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"Row groups index is not available at {dataset.url}: the one in "
        f"{dataset.location.file_url(name)} was built for other row groups than there are now. "
        "Build it again with build_rowgroup_index"
    )


def _kind(indexer: Indexer) -> str:
    """Name the class of Petastorm that knows the same as an indexer, which may be a subclass."""
    return next(name for name, class_ in _CLASSES.items() if isinstance(indexer, class_))


_CLASSES: dict[str, type[Indexer]] = {
    "SingleFieldIndexer": SingleFieldIndexer,
    "FieldNotNullIndexer": FieldNotNullIndexer,
}


def _to_json(indexer: Indexer) -> dict[str, Any]:
    field = indexer.column_names[0]
    header = {"name": indexer.index_name, "field": field}
    if isinstance(indexer, FieldNotNullIndexer):
        return {**header, "not_null": sorted(indexer._index_data)}
    values = [
        [_value_to_json(value, field), sorted(numbers)]
        for value, numbers in indexer._index_data.items()
    ]
    return {**header, "values": values}


def _from_json(index: Mapping[str, Any]) -> Indexer:
    if "not_null" in index:
        not_null = FieldNotNullIndexer(index["name"], index["field"])
        not_null._index_data = set(index["not_null"])
        return not_null
    indexer = SingleFieldIndexer(index["name"], index["field"])
    indexer._index_data = {
        _value_from_json(value): set(numbers) for value, numbers in index["values"]
    }
    return indexer


def _value_to_json(value: Any, field: str) -> Any:
    if isinstance(value, np.datetime64):
        return {"datetime64": [str(value), np.datetime_data(value)[0]]}
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, np.generic) and not isinstance(value, str):  # whose `item` loses NULs
        value = value.item()
    if isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Decimal):
        return {"decimal": str(value)}
    raise InvalidArgumentError(
        f"field {field!r} holds values of type {type(value).__name__}, which cannot be indexed"
    )


def _value_from_json(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    if "datetime64" in value:
        return np.datetime64(*value["datetime64"])
    if "bytes" in value:
        return base64.b64decode(value["bytes"])
    return Decimal(value["decimal"])
