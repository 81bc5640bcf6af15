"""MDS datasets: a directory, its index, or some of its shards."""

from __future__ import annotations

import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import takewhile

from mdstorm_backend.datasets import Dataset, open_mds
from mdstorm_backend.errors import (
    DatasetNotFoundError,
    InvalidArgumentError,
    MDStormError,
    UnsupportedTableError,
)
from mdstorm_backend.format import CLAIM_NAME, EXTENSIONS, INDEX_NAME, MARKER_NAME
from mdstorm_backend.kinds.kind import Kind
from mdstorm_backend.kinds.place import Place
from mdstorm_backend.storage import Location, normalize_url
from mdstorm_backend.tables import check_as_of

_SHARD = re.compile(rf".*\.mds(\.({EXTENSIONS}))?")


class MDS(Kind):
    """MDS datasets, also of MosaicML Streaming."""

    name = "an MDS dataset"
    asked = "first"

    def is_at(self, place: Place) -> bool:
        """Whether there is an index, or a URL is that of a shard."""
        one = place.location
        return any(map(is_shard, place.urls)) or (one is not None and one.exists(INDEX_NAME))

    def find(self, place: Place) -> Dataset | None:
        """Open the dataset; return None if there is no index."""
        if place.table is not None:  # its credentials may not allow looking for an index
            return None
        if len(place.urls) == 1 and _may_be_directory(place):
            url = index_directory(place.urls[0])
            directory = Location.of(url, place.storage_options, place.filesystem)
            # In a store, the index is read at once, because each request takes time.
            is_asked = directory.is_local_disk or place.filesystem is not None
            if not is_asked or directory.exists(INDEX_NAME):
                self._check_filesystem(place, url)
                with suppress(DatasetNotFoundError):
                    return self._open_directory(place, directory.url)
        return self.open(place) if any(map(is_shard, place.urls)) else None

    def open(self, place: Place) -> Dataset:
        """Open the dataset, or only those of its shards that the URLs name."""
        if not any(map(is_shard, place.urls)):
            return self._open_directory(place, index_directory(place.urls[0]))
        self._check_filesystem(place, place.urls[0])
        urls = [url for one in place.locations for url in _matching(one)]
        whole = self._open_directory(place, place.directory or directory_of(urls))
        # These shards are the whole dataset: its rows are numbered from 0.
        chosen = whole.with_shards(_numbers_of(urls, whole))
        is_named = place.directory is not None and place.is_named
        return replace(chosen, starts=None, is_named=is_named)

    def _open_directory(self, place: Place, directory: str) -> Dataset:
        dataset = open_mds(
            directory,
            storage_options=place.storage_options,
            cache=place.cache,
            allow_unsafe_types=place.allow_unsafe_types,
        )
        check_as_of(place.as_of, dataset.url)
        return dataset

    def _check_filesystem(self, place: Place, url: str) -> None:
        if place.filesystem is not None:
            raise UnsupportedTableError(
                f"filesystem= reads Parquet files, but {url} is {self.name}: leave it out, and "
                "pass storage_options if the storage needs them",
                url=url,
            )


def is_shard(url: str) -> bool:
    """Whether a URL has the file extension of a shard."""
    return _SHARD.fullmatch(url) is not None


def directory_of(urls: Sequence[str]) -> str:
    """Return the innermost directory that contains all the given files."""
    parts = [normalize_url(url).split("/")[:-1] for url in urls]
    common = takewhile(lambda names: len(set(names)) == 1, zip(*parts, strict=False))
    return "/".join(names[0] for names in common)


def unfinished(location: Location) -> str | None:
    """Return a message if a job has started to write a dataset here, otherwise None."""
    with suppress(MDStormError, OSError):
        if location.exists(MARKER_NAME) or location.exists(CLAIM_NAME):
            return (
                f"there is no dataset at {location.url} yet: the job that writes it is not "
                f"finished, or was killed, since there is no {INDEX_NAME}. Wait for it, or write "
                "the dataset again"
            )
    return None


def missing_index(location: Location, url: str) -> str | None:
    """Return a message if a file that is not Parquet is a shard whose index is missing.

    Parameters
    ----------
    location : Location
        What was opened as a directory of Parquet files.
    url : str
        URL of the file, or of the directory if it has no files.
    """
    if (message := unfinished(location)) is None and is_shard(url):
        return (
            f"there is no dataset at {location.url}: it has shards, but no {INDEX_NAME}. If the "
            "job that writes it has ended, rebuild the index with mdstorm reindex"
        )
    return message


def _may_be_directory(place: Place) -> bool:
    """Whether the URL may be that of a directory or an index, and not of another kind of file."""
    url = place.urls[0]
    if url.endswith((".json", ".json.gz")):
        return url.rpartition("/")[2] == INDEX_NAME
    return place.directory in (None, url)  # otherwise it is that of a file in the directory


def index_directory(url: str) -> str:
    """Return the directory of a dataset, given its URL or the URL of its index."""
    directory, slash, name = url.rpartition("/")
    return (directory or slash or ".") if name == INDEX_NAME else url


def _matching(location: Location) -> list[str]:
    return [one.url for one in location.matching()] if location.is_pattern else [location.url]


def _numbers_of(urls: Sequence[str], dataset: Dataset) -> list[int]:
    """Return the numbers of shards by their URLs."""
    numbers = {normalize_url(url): number for number, url in enumerate(dataset.file_urls)}
    unknown = [url for url in urls if normalize_url(url) not in numbers]
    if unknown:
        raise InvalidArgumentError(
            f"{unknown[0]} is not one of the {len(numbers)} shards of the dataset at "
            f"{dataset.url}: pass shards of one dataset, as in converter.file_urls"
        )
    return [numbers[normalize_url(url)] for url in urls]
