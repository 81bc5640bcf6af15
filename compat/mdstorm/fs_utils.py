"""Resolve URLs to file systems, mirroring ``petastorm.fs_utils``.

The file systems come from fsspec, which has only one HDFS driver, so ``hdfs_driver`` has no effect.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any
from urllib.parse import ParseResult, urlparse

from mdstorm._datasets import checked_url, checked_urls
from mdstorm._petastorm_names import other_names
from mdstorm_backend.storage import check_scheme, normalize_url, open_filesystem

__all__ = [
    "FilesystemResolver",
    "get_dataset_path",
    "get_filesystem_and_path_or_paths",
    "normalize_dir_url",
]

__getattr__ = other_names(__name__)

#: URL schemes where the part after the slashes is a host rather than part of the path.
_WITH_HOST = frozenset({"file", "hdfs", ""})


class FilesystemResolver:
    """Finds the file system for a URL.

    Parameters
    ----------
    dataset_url : str or urllib.parse.ParseResult
        The URL, either as a string or parsed.
    hadoop_configuration, connector, hdfs_driver, user : object
        Not used.
    storage_options : dict, optional
        Options for the fsspec file system.

    Raises
    ------
    InvalidArgumentError
        If the URL has no scheme; also ValueError.
    UnsupportedURLError
        If the scheme is unknown; also ValueError.
    OSError
        If the URL is on HDFS and HDFS cannot be reached.
    """

    def __init__(
        self,
        dataset_url: str | ParseResult,
        hadoop_configuration: Any = None,
        connector: Any = None,
        hdfs_driver: str = "libhdfs3",
        user: str | None = None,
        storage_options: dict[str, Any] | None = None,
    ) -> None:
        url = dataset_url.geturl() if isinstance(dataset_url, ParseResult) else dataset_url
        self._dataset_url: str = checked_urls(url).rstrip("/")
        self._storage_options = dict(storage_options or {})
        # The file system is opened on first use, because that may need the network.
        check_scheme(self._dataset_url)
        if self.parsed_dataset_url().scheme == "hdfs":
            self.filesystem()  # Petastorm also connects in the constructor

    def parsed_dataset_url(self) -> ParseResult:
        """Return the parts of the URL."""
        return urlparse(self._dataset_url)

    def get_dataset_path(self) -> str:
        """Return the path of the dataset in the file system."""
        return open_filesystem(normalize_url(self._dataset_url), self._storage_options)[1]

    def filesystem(self) -> Any:
        """Return the fsspec file system."""
        return self.filesystem_factory()()

    def filesystem_factory(self) -> Callable[[], Any]:
        """Return a picklable function that creates the file system."""
        return partial(_filesystem, self._dataset_url, self._storage_options)


def get_dataset_path(parsed_url: ParseResult) -> str:
    """Return the path of a parsed URL, including the bucket for object stores."""
    if parsed_url.scheme.lower() in _WITH_HOST:
        return parsed_url.path
    return parsed_url.netloc + parsed_url.path


def get_filesystem_and_path_or_paths(
    url_or_urls: str | list[str],
    hdfs_driver: str = "libhdfs3",
    storage_options: dict[str, Any] | None = None,
    filesystem: Any = None,
) -> tuple[Any, str | list[str]]:
    """Return the file system for one or more URLs, and their path or paths in it.

    Parameters
    ----------
    url_or_urls : str or list of str
        One URL, or a list of URLs in the same store.
    hdfs_driver : str
        Not used.
    storage_options : dict, optional
        Options for the fsspec file system.
    filesystem : object, optional
        A file system to return instead.

    Raises
    ------
    InvalidArgumentError
        If a URL has no scheme, or the URLs are in different stores; also ValueError.
    """
    url_or_urls = checked_urls(url_or_urls)
    urls = [url_or_urls] if isinstance(url_or_urls, str) else url_or_urls
    paths = [get_dataset_path(urlparse(url)) for url in urls]
    if filesystem is None:
        filesystem = _filesystem(urls[0], storage_options or {})
    return filesystem, paths[0] if isinstance(url_or_urls, str) else paths


def normalize_dir_url(dataset_url: str) -> str:
    """Return a URL without a trailing slash.

    Raises
    ------
    InvalidArgumentError
        If the URL is empty, or neither a string nor a path; also ValueError.
    """
    return checked_url(dataset_url).removesuffix("/")


def _filesystem(url: str, storage_options: dict[str, Any]) -> Any:
    return open_filesystem(normalize_url(url), storage_options)[0]
