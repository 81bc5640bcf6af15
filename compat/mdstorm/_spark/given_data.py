"""A path in the place of a DataFrame: data that are there already, and stay the user's."""

from __future__ import annotations

import os

from mdstorm.errors import UnsupportedURLError
from mdstorm_backend.datasets import Dataset, open_dataset
from mdstorm_backend.format import INDEX_NAME
from mdstorm_backend.parquet import ParquetDataset, open_parquet
from mdstorm_backend.storage import Location

__all__ = ["databricks_path", "open_given"]

_PATTERN = frozenset("*?[")


def databricks_path(path: str) -> str:
    """Return the path as Petastorm reads it: on Databricks, DBFS by way of its mount.

    Raises
    ------
    UnsupportedURLError
        If it is not on DBFS, and this is Databricks.
    """
    if "DATABRICKS_RUNTIME_VERSION" not in os.environ:
        return path
    if path.startswith(("file:/dbfs/", "file:///dbfs/")):
        return path
    if path.startswith("dbfs:///") or (path.startswith("dbfs:/") and path[6:7] != "/"):
        return "file:/dbfs/" + path.removeprefix("dbfs:").lstrip("/")
    raise UnsupportedURLError(
        f"On databricks runtime, if `df` is a string, it must be a dbfs fuse path like "
        f"file:/dbfs/xx or dbfs:/xx, found {path!r}. Read other storages with "
        "mdstorm.make_batch_reader, or make the converter by "
        "SparkDatasetConverter(url, file_urls, number_of_rows)"
    )


def open_given(path: str) -> Dataset | ParquetDataset:
    """Open the MDS dataset or the Parquet files at a path or URL.

    Raises
    ------
    DatasetNotFoundError
        If there is nothing.
    CorruptDatasetError
        If it is neither.
    """
    if not _PATTERN.intersection(path) and Location.of(path).exists(INDEX_NAME):
        return open_dataset(path)
    return open_parquet(path)
