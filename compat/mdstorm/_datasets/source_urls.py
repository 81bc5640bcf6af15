"""Check the URLs of datasets as Petastorm does."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlparse

from mdstorm import errors
from mdstorm_backend.catalogs import hint_of_parts, is_table, table_name
from mdstorm_backend.datasets import SampleDataset
from mdstorm_backend.kinds import Openable
from mdstorm_backend.storage import has_scheme, normalize_url, url_of


def checked_source(source: Any) -> Any:
    """Check URLs as Petastorm does; return tables, converters and datasets unchanged.

    Raises
    ------
    InvalidArgumentError
        If the source is something else, or `checked_urls` refuses it.
    """
    is_object = isinstance(source, (Openable, SampleDataset))
    return source if is_object or is_table(source) else checked_urls(source)


def checked_urls(urls: Any) -> Any:
    """Check and return one URL or a list of URLs; path objects become URLs.

    Absolute paths on Databricks mounts count as URLs.

    Raises
    ------
    InvalidArgumentError
        As in Petastorm, unless all URLs have the same scheme and host.
    """
    if isinstance(urls, list) and not urls:
        raise errors.InvalidArgumentError(
            "dataset url list must be non-empty: pass at least one file URL"
        )
    several = [checked_url(url) for url in (urls if isinstance(urls, list) else [urls])]
    for url in several:
        if not has_scheme(url) and table_name(url) is None:
            raise errors.InvalidArgumentError(scheme_less(url, "dataset") + hint_of_parts(url))
    if len({(urlparse(url).scheme, urlparse(url).netloc) for url in several}) > 1:
        raise errors.InvalidArgumentError(
            f"The dataset url list must contain url with the same scheme and netloc, found "
            f"{several}: read datasets in different stores one after the other"
        )
    return several if isinstance(urls, list) else several[0]


def checked_url(url: Any) -> str:
    """Convert a URL or path object to a URL.

    Raises
    ------
    InvalidArgumentError
        If the value is neither a URL nor a path object, or is empty.
    """
    url = url_of(url)
    if not isinstance(url, str) or not url:
        raise errors.InvalidArgumentError(
            f"directory url must be a string, found {url!r}: pass a URL or a list of them"
        )
    return url


def scheme_less(path: str, what: str) -> str:
    """Return Petastorm's message for a path without a scheme, with the URL to use."""
    return (
        f"ERROR! A scheme-less {what} url ({path}) is no longer supported. Please prepend "
        f'"file://" for local filesystem: write {normalize_url(path)}'
    )
