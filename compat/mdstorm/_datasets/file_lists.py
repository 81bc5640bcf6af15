"""Open datasets by the URLs of their files: shards of MDS, or files of Parquet."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import partial
from itertools import takewhile
from typing import Any
from urllib.parse import unquote

from mdstorm.errors import DatasetNotFoundError, InvalidArgumentError, UnsupportedArgumentError
from mdstorm_backend.datasets import Dataset, open_dataset
from mdstorm_backend.format import EXTENSIONS
from mdstorm_backend.parquet import ParquetDataset, open_parquet
from mdstorm_backend.storage import normalize_url
from mdstorm_backend.tables import AsOf, check_as_of

_SHARD = re.compile(rf".*\.mds(\.({EXTENSIONS}))?")


def open_files(
    urls: Sequence[str],
    *,
    directory: str | None = None,
    storage_options: dict[str, Any] | None = None,
    filesystem: Any = None,
    as_of: AsOf | None = None,
) -> Dataset | ParquetDataset:
    """Open the dataset that some files are, in their order.

    Parameters
    ----------
    urls : sequence of str
        Shards of one MDS dataset, all or some of them; or files of Parquet, which have no
        partition columns.
    directory : str, optional
        Directory of an MDS dataset; by default the innermost one that has all shards.
    storage_options : dict, optional
        Options of the fsspec file system.
    filesystem : object, optional
        A file system of fsspec or pyarrow, for Parquet files alone.
    as_of : AsOf, optional
        The version of a Delta table, whose URL takes the place of those of files.

    Raises
    ------
    InvalidArgumentError
        If there is no file, shards are not of one dataset, or `as_of` is given for what has no
        versions.
    UnsupportedArgumentError
        If `filesystem` is given with shards.
    DatasetNotFoundError
        If there is no such dataset.
    """
    if not urls and directory is None:
        raise InvalidArgumentError(
            "the list of files is empty: name at least one file, or the dataset's directory"
        )
    if urls and not any(map(is_shard, urls)):
        return open_parquet_files(list(urls), storage_options, filesystem, as_of)
    check_as_of(as_of, directory or directory_of(urls))
    if filesystem is not None:
        raise UnsupportedArgumentError(
            "filesystem= reads Parquet files, and these are MDS shards: leave it out, and pass "
            "storage_options if their storage needs them"
        )
    dataset = open_dataset(directory or directory_of(urls), storage_options=storage_options)
    return dataset.with_shards(_numbers_of(urls, dataset))


def _numbers_of(urls: Sequence[str], dataset: Dataset) -> list[int]:
    if not urls and dataset.file_urls:
        raise InvalidArgumentError(
            f"the list of files is empty, but the dataset at {dataset.url} has "
            f"{len(dataset.file_urls)} shards: pass those to read, as in converter.file_urls"
        )
    numbers = {normalize_url(url): number for number, url in enumerate(dataset.file_urls)}
    unknown = [url for url in urls if normalize_url(url) not in numbers]
    if unknown:
        raise InvalidArgumentError(
            f"{unknown[0]} is none of the {len(numbers)} shards of the dataset at {dataset.url}: "
            "pass shards of one dataset, as in converter.file_urls"
        )
    return [numbers[normalize_url(url)] for url in urls]


def is_shard(url: str) -> bool:
    """Whether a URL ends as those of MDS shards do."""
    return _SHARD.fullmatch(url) is not None


def directory_of(urls: Sequence[str]) -> str:
    """Return the innermost directory that has all of these files."""
    parts = [normalize_url(url).split("/")[:-1] for url in urls]
    common = takewhile(lambda names: len(set(names)) == 1, zip(*parts, strict=False))
    return "/".join(names[0] for names in common)


def open_parquet_files(
    urls: str | list[str],
    storage_options: dict[str, Any] | None,
    filesystem: Any,
    as_of: AsOf | None = None,
) -> ParquetDataset:
    """Open Parquet whose URLs are spelled as they are, or percent-encoded as Spark does it."""
    opened = partial(
        open_parquet, storage_options=storage_options, filesystem=filesystem, as_of=as_of
    )
    try:
        return opened(urls)
    except DatasetNotFoundError:
        decoded = unquote(urls) if isinstance(urls, str) else [unquote(url) for url in urls]
        if decoded == urls:
            raise
        return opened(decoded)
