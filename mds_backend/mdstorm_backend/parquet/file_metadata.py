"""What a writer of metadata asks of Parquet files: whole footers, and whether files were added."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import pyarrow.parquet as pq

from mdstorm_backend.cache.options import CacheOptions
from mdstorm_backend.parquet.footers import read_metadata
from mdstorm_backend.parquet.listing import find_files, locate
from mdstorm_backend.parquet.parquet_dataset import ParquetDataset
from mdstorm_backend.parquet.row_groups import ParquetFileInfo

_THREADS = 16


def read_file_metadata(
    dataset: ParquetDataset, files: Sequence[ParquetFileInfo]
) -> list[pq.FileMetaData]:
    """Read the footers of some files of a dataset, several at a time, and keep all of them.

    Raises
    ------
    DatasetNotFoundError, CorruptDatasetError, CredentialsError, StorageError
        If a footer cannot be read.
    """
    options = dataset.cache or CacheOptions()
    with ThreadPoolExecutor(min(_THREADS, len(files)) or 1) as pool:
        return list(pool.map(lambda file: read_metadata(dataset.location, file, options), files))


def has_same_files(dataset: ParquetDataset) -> bool:
    """Whether there are the same files as when the dataset was opened.

    The directory is listed again; names, sizes, and what else the storage tells are compared.

    Raises
    ------
    CredentialsError, StorageError
        If the storage denies access or fails.
    """
    location = dataset.location
    locations = locate(dataset.url, location.storage_options, location.filesystem)
    found = find_files(locations, check=False)
    return found.files == dataset.files
