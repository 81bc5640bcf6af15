"""Load and store row group indexes, as JSON beside the shards.

The file's name does not end in ``.json``, so that it is not taken for part of the dataset, and
begins with an underscore, so that it is not taken for a Parquet file. Indexes that Petastorm wrote
into ``_common_metadata`` are read as well.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import numpy as np

from mdstorm._pickles.restricted_unpickler import load_indexes
from mdstorm._selection.row_group_indexers import FieldNotNullIndexer, SingleFieldIndexer
from mdstorm.errors import CorruptDatasetError, InvalidArgumentError
from mdstorm_backend.datasets import Dataset
from mdstorm_backend.parquet import ParquetDataset

#: Petastorm's key in ``_common_metadata``.
ROWGROUPS_INDEX_KEY = b"dataset-toolkit.rowgroups_index.v1"
INDEX_FILE = "_rowgroup_index"

Indexer = SingleFieldIndexer | FieldNotNullIndexer

_VERSION = 1


def save_indexers(dataset: Dataset | ParquetDataset, indexers: Mapping[str, Indexer]) -> None:
    """Write the indexes of a dataset, replacing any that it had.

    Raises
    ------
    InvalidArgumentError
        If a field has values that cannot be kept.
    """
    text = json.dumps(
        {
            "version": _VERSION,
            "row_groups": _identity(dataset),
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
    """
    try:
        content = bytes(dataset.location.read(INDEX_FILE))
    except (FileNotFoundError, NotADirectoryError):
        return _of_petastorm(dataset)
    url = dataset.location.file_url(INDEX_FILE)
    try:
        found = json.loads(content)
        if found["row_groups"] != _identity(dataset):
            raise InvalidArgumentError(
                f"Row groups index is not available at {dataset.url}: the one in {url} was built "
                "for other row groups than there are now. Build it again with build_rowgroup_index"
            )
        return {index["name"]: _from_json(index) for index in found["indexes"]}
    except InvalidArgumentError:
        raise
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise CorruptDatasetError(
            f"{url} is not a row group index ({type(error).__name__}: {error}). Build it again "
            "with build_rowgroup_index",
            url=url,
        ) from error


def _of_petastorm(dataset: Dataset | ParquetDataset) -> dict[str, Indexer]:
    metadata = dataset.common_metadata if isinstance(dataset, ParquetDataset) else {}
    if ROWGROUPS_INDEX_KEY not in metadata:
        raise InvalidArgumentError(
            f"Row groups index is not available at {dataset.url}: build it with "
            "mdstorm.etl.rowgroup_indexing.build_rowgroup_index, or leave rowgroup_selector out"
        )
    indexers: dict[str, Indexer] = {}
    for name, stored in load_indexes(metadata[ROWGROUPS_INDEX_KEY]).items():
        class_ = _CLASSES[stored.kind]
        indexers[name] = class_(stored.index_name, stored.column_name)
        indexers[name]._index_data = stored.row_groups
    return indexers


_CLASSES: dict[str, type[Indexer]] = {
    "SingleFieldIndexer": SingleFieldIndexer,
    "FieldNotNullIndexer": FieldNotNullIndexer,
}


def _identity(dataset: Dataset | ParquetDataset) -> str:
    """Return an identity that changes with the row groups, but not when files are copied."""
    if isinstance(dataset, Dataset):
        return dataset.fingerprint
    groups = [(group.path, group.ordinal, group.num_rows) for group in dataset.row_groups]
    return hashlib.sha256(repr(groups).encode()).hexdigest()[:16]


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
