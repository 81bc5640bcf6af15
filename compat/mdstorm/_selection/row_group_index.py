"""Load and store row group indexes, in Petastorm's pickle of them, which is read as data.

For Parquet files it is in their metadata; for MDS it is a file, in which a line that tells the
dataset comes first.
"""

from __future__ import annotations

from collections.abc import Mapping

from mdstorm._datasets.common_metadata import add_metadata, common_metadata_of
from mdstorm._datasets.metadata_keys import COMMON_METADATA, ROW_GROUPS_INDEX_KEY
from mdstorm._datasets.petastorm_metadata import check_no_table
from mdstorm._datasets.stored_index import has_stale_index, index_entries
from mdstorm._pickles.index_pickle import StoredIndex, dump_indexes, load_indexes
from mdstorm._selection.row_group_indexers import FieldNotNullIndexer, SingleFieldIndexer
from mdstorm.errors import InvalidArgumentError
from mdstorm_backend.datasets import Dataset
from mdstorm_backend.parquet import ParquetDataset

INDEX_FILE = "_rowgroup_index"

Indexer = SingleFieldIndexer | FieldNotNullIndexer


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
    stored = {
        name: StoredIndex(_kind(i), name, i.column_names[0], i._index_data)
        for name, i in indexers.items()
    }
    pickled = dump_indexes(stored)
    if isinstance(dataset, ParquetDataset):
        check_no_table(dataset)
        add_metadata(dataset, index_entries(dataset, pickled))
    else:
        dataset.location.write(INDEX_FILE, [_first_line(dataset), pickled])


def load_row_group_index(dataset: Dataset | ParquetDataset) -> dict[str, Indexer]:
    """Return the indexes of a dataset by name.

    Raises
    ------
    InvalidArgumentError
        If it has none, or they were built for another state of it; also ValueError.
    CorruptDatasetError
        If the metadata of the Parquet files are damaged.
    UnsafePickleError
        If Petastorm would not have written them.
    """
    found = _of_parquet(dataset) if isinstance(dataset, ParquetDataset) else _of_mds(dataset)
    if found is None:
        raise InvalidArgumentError(
            f"Row groups index is not available at {dataset.url}: build it with "
            "mdstorm.etl.rowgroup_indexing.build_rowgroup_index, or leave rowgroup_selector out"
        )
    return indexers_of(load_indexes(found))


def _of_parquet(dataset: ParquetDataset) -> bytes | None:
    entries = common_metadata_of(dataset)
    if has_stale_index(dataset, entries):
        raise _stale(dataset, COMMON_METADATA)
    return entries.get(ROW_GROUPS_INDEX_KEY)


def _of_mds(dataset: Dataset) -> bytes | None:
    try:
        content = bytes(dataset.location.read(INDEX_FILE))
    except (FileNotFoundError, NotADirectoryError):
        return None
    first_line = _first_line(dataset)
    if not content.startswith(first_line):
        raise _stale(dataset, INDEX_FILE)
    return content[len(first_line) :]


def _first_line(dataset: Dataset) -> bytes:
    """Return what the file begins with, which tells the shards that it was built for."""
    return f"{dataset.fingerprint}\n".encode("ascii")


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
