"""The files of a converter."""

from __future__ import annotations

from collections.abc import Sequence

from mdstorm.errors import InvalidArgumentError
from mdstorm_backend.dataset import Dataset, open_dataset

__all__ = ["open_files"]


def open_files(cache_dir_url: str, file_urls: Sequence[str]) -> Dataset:
    """Open the dataset of a converter.

    Raises
    ------
    InvalidArgumentError
        If the files are not all of its shards: reading a part of a dataset is not supported.
    DatasetNotFoundError
        If it is gone.
    """
    dataset = open_dataset(cache_dir_url)
    if set(file_urls) != set(dataset.file_urls):
        raise InvalidArgumentError(
            f"{len(set(file_urls))} file URLs are given, and the dataset at {dataset.url} has "
            f"{len(dataset.file_urls)} shards, not all of them the same. A part of a dataset "
            "cannot be read: give the URLs of all shards, as converter.file_urls has them"
        )
    return dataset
