"""Open the files of a converter."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import unquote

from mdstorm._readers.arguments import ReaderArguments
from mdstorm.errors import (
    DatasetNotFoundError,
    InvalidArgumentError,
    UnsupportedArgumentError,
)
from mdstorm_backend.datasets import Dataset, open_dataset
from mdstorm_backend.format import EXTENSIONS
from mdstorm_backend.parquet import ParquetDataset, open_parquet

_SHARD = re.compile(rf".*\.mds(\.({EXTENSIONS}))?")


def open_files(
    cache_dir_url: str, file_urls: Sequence[str], arguments: ReaderArguments
) -> Dataset | ParquetDataset:
    """Open the dataset of a converter.

    Files of Parquet are read in the order in which they are given, any part of a dataset will do,
    and they have no partition columns.

    Parameters
    ----------
    cache_dir_url : str
        Directory of the dataset.
    file_urls : sequence of str
        Its files.
    arguments : ReaderArguments
        How to get at them: ``storage_options`` or, for Parquet files alone, ``filesystem``.

    Raises
    ------
    InvalidArgumentError
        If the files are shards, and not all of their dataset.
    DatasetNotFoundError
        If it is gone.
    """
    if file_urls and not any(map(_SHARD.fullmatch, file_urls)):
        return _open_parquet(list(file_urls), arguments)
    if arguments.filesystem is not None:
        raise UnsupportedArgumentError(
            "filesystem= reads Parquet files, and these are MDS shards: leave it out, and give "
            "what their storage needs with storage_options"
        )
    dataset = open_dataset(cache_dir_url, storage_options=arguments.storage_options)
    if set(file_urls) != set(dataset.file_urls):
        raise InvalidArgumentError(
            f"{len(set(file_urls))} file URLs are given, and the dataset at {dataset.url} has "
            f"{len(dataset.file_urls)} shards, not all of them the same. A part of a dataset "
            "cannot be read: give the URLs of all shards, as converter.file_urls has them"
        )
    return dataset


def _open_parquet(file_urls: list[str], arguments: ReaderArguments) -> ParquetDataset:
    """Open files whose URLs are spelled as they are, or percent-encoded as Spark does it."""
    options, filesystem = arguments.storage_options, arguments.filesystem
    try:
        return open_parquet(file_urls, storage_options=options, filesystem=filesystem)
    except DatasetNotFoundError:
        decoded = [unquote(url) for url in file_urls]
        if decoded == file_urls:
            raise
        return open_parquet(decoded, storage_options=options, filesystem=filesystem)
