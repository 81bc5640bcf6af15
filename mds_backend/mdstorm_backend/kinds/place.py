"""`Place`: where data are, and how they should be opened."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

from mdstorm_backend.base import cached_property
from mdstorm_backend.cache import CacheOptions
from mdstorm_backend.catalogs import CatalogTable, find_table, given_table, table_name
from mdstorm_backend.datasets import SampleDataset
from mdstorm_backend.display import shown_urls
from mdstorm_backend.errors import ArgumentTypeError, InvalidArgumentError
from mdstorm_backend.parquet import check_one_storage
from mdstorm_backend.storage import Location, url_of
from mdstorm_backend.tables import AsOf


class Openable(ABC):
    """What is not a dataset, but stands for one: a converter, or a reader's dataset."""

    @abstractmethod
    def _mdstorm_open(self) -> SampleDataset:
        """Open the dataset as it is stored."""


@dataclass(frozen=True)
class Place:
    """Where data are, and how they should be opened.

    Attributes
    ----------
    urls : tuple of str
        URLs, paths or the name of a table, at least one.
    storage_options : dict or None
        Options for the fsspec file system.
    filesystem : fsspec or pyarrow file system, optional
        Takes precedence over the URLs' own and `storage_options`.
    as_of : AsOf or None
        The version of a table; by default the newest one.
    cache : CacheOptions or None
        How files are copied to this machine.
    allow_unsafe_types : bool
        Whether columns may be unpickled.
    directory : str or None
        The directory of the dataset that the URLs are files of, if it is known.
    is_named : bool
        Whether the user named this directory, so that files in columns may be read below it.
    keep_row_groups : bool
        Whether each row group of a table is a shard.
    may_be_unfinished : bool
        Whether a job may still be writing Parquet files.
    partitioned : bool
        Whether directories of Parquet files have partition columns.
    """

    urls: tuple[str, ...]
    storage_options: dict[str, Any] | None = None
    filesystem: Any = None
    as_of: AsOf | None = None
    cache: CacheOptions | None = None
    allow_unsafe_types: bool = False
    directory: str | None = None
    is_named: bool = True
    keep_row_groups: bool = False
    may_be_unfinished: bool = False
    partitioned: bool = True

    @cached_property
    def table(self) -> CatalogTable | None:
        """The table, if the only URL is its name in a catalog."""
        if len(self.urls) != 1:
            return None
        return find_table(self.urls[0], self.storage_options, self.filesystem)

    @cached_property
    def locations(self) -> list[Location]:
        """The locations of the URLs.

        Raises
        ------
        InvalidArgumentError
            If one of several URLs is a table's name, or they are in different stores.
        """
        if self.table is not None:
            return [self.table.location]
        if names := [url for url in self.urls if table_name(url) is not None]:
            raise InvalidArgumentError(
                f"{names[0]!r} is the name of a table, and only one table can be read at a time: "
                "pass only this name"
            )
        found = [Location.of(url, self.storage_options, self.filesystem) for url in self.urls]
        check_one_storage(found)
        return found

    @property
    def location(self) -> Location | None:
        """The location if there is one URL, which may be a pattern; None if there are several."""
        return self.locations[0] if len(self.locations) == 1 else None

    @property
    def url(self) -> str:
        """The URLs or the table's name, for messages."""
        if self.table is not None:
            return self.table.name.url
        return shown_urls([location.url for location in self.locations])

    def decoded(self) -> Place:
        """Return the place with URLs that Spark has percent-encoded as they are stored."""
        return replace(self, urls=tuple(unquote(url) for url in self.urls))


def place_of(source: Any, storage_options: Any = None, **how: Any) -> Place:
    """Return the place of what a user passed.

    Parameters
    ----------
    source : str, path, list of them, or a table of pyiceberg or deltalake
        What was passed.
    storage_options : dict, optional
        Options for the fsspec file system.
    **how
        Other attributes of the place.

    Raises
    ------
    ArgumentTypeError
        If `source` is something else.
    InvalidArgumentError
        If the list is empty.
    """
    source, storage_options, version = given_table(source, storage_options)
    several = source if isinstance(source, (list, tuple)) else [source]
    urls = tuple(url_of(url) for url in several)
    if not urls:
        raise InvalidArgumentError("dataset url list must be non-empty: pass at least one URL")
    if wrong := [url for url in urls if not isinstance(url, str) or not url]:
        found = wrong[0] if wrong[0] is None or isinstance(wrong[0], str) else type(wrong[0])
        raise ArgumentTypeError(
            f"expected a URL or a path, found {found!r}: pass one, a list of them, or a table "
            "of pyiceberg or deltalake; Spark's DataFrames need make_spark_converter"
        )
    if version is not None and not how.get("as_of"):
        how["as_of"] = AsOf(version)
    return Place(urls, storage_options, **how)
