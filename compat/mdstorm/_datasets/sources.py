"""Open the dataset that a reader's URL names: MDS, Parquet, or written by Petastorm."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple
from urllib.parse import urlparse

from mdstorm._datasets.decoded_source import decoded, stored_unischema, with_float_decimals
from mdstorm._datasets.file_lists import is_shard, open_files, open_parquet_files
from mdstorm._datasets.float_decimals import schema_with_floats
from mdstorm._datasets.stored_index import row_group_counts
from mdstorm.errors import InvalidArgumentError
from mdstorm.unischema import Unischema, infer_unischema
from mdstorm_backend.base import warn_user
from mdstorm_backend.datasets import Dataset, open_dataset
from mdstorm_backend.format import INDEX_NAME, become_floats
from mdstorm_backend.parquet import ParquetDataset, open_parquet
from mdstorm_backend.read import SampleSource
from mdstorm_backend.storage import Location, has_scheme, normalize_url, url_of
from mdstorm_backend.tables import AsOf, check_as_of, check_no_table_name

#: What makes a pattern of a path.
_PATTERN = frozenset("*?[")


class Opened(NamedTuple):
    """An open dataset of any kind.

    Attributes
    ----------
    source : SampleSource
        Its samples.
    unischema : Unischema
        Its fields: those that were stored with it, or what its columns imply.
    kind : {"mds", "parquet", "petastorm"}
        Petastorm's are Parquet files with a stored schema.
    inferred : bool
        Whether the fields are what the columns imply.
    """

    source: SampleSource
    unischema: Unischema
    kind: Literal["mds", "parquet", "petastorm"]
    inferred: bool = False


def open_urls(
    urls: str | list[str],
    *,
    storage_options: dict[str, Any] | None = None,
    filesystem: Any = None,
    as_of: AsOf | None = None,
) -> Dataset | ParquetDataset:
    """Open the dataset that URLs name.

    Parameters
    ----------
    urls : str or list of str
        A directory or file, or several files: of Parquet, or shards of one MDS dataset.
    storage_options : dict, optional
        Options of the fsspec file system.
    filesystem : object, optional
        A file system of fsspec or pyarrow, which takes precedence over the scheme of the URLs and
        `storage_options`.
    as_of : AsOf, optional
        The version of a Delta table; by default the newest one.

    Raises
    ------
    InvalidArgumentError
        If the URLs are invalid, or `as_of` is given for what has no versions.
    DatasetNotFoundError, CorruptDatasetError
        If there is no dataset, or it cannot be read.
    """
    urls = checked_urls(urls)
    several = [urls] if isinstance(urls, str) else urls
    if len(several) == 1 and filesystem is None and _is_mds(several[0], storage_options):
        check_as_of(as_of, several[0])
        return open_dataset(several[0], storage_options=storage_options)
    if any(map(is_shard, several)):
        check_as_of(as_of, several[0])
        return open_files(several, storage_options=storage_options, filesystem=filesystem)
    return open_parquet_files(urls, storage_options, filesystem, as_of)


def open_stored(
    url: str,
    *,
    storage_options: dict[str, Any] | None = None,
    as_of: AsOf | None = None,
    keep_row_groups: bool = False,
) -> Dataset | ParquetDataset:
    """Open the MDS dataset, the Parquet files or the version of a Delta table at a path or URL.

    Raises
    ------
    DatasetNotFoundError
        If there is nothing.
    CorruptDatasetError
        If it is neither.
    """
    if not _PATTERN.intersection(url) and _is_mds(url, storage_options):
        check_as_of(as_of, url)
        return open_dataset(url, storage_options=storage_options)
    return open_parquet(
        url, storage_options=storage_options, as_of=as_of, keep_row_groups=keep_row_groups
    )


def opened(
    dataset: Dataset | ParquetDataset, *, decode: bool = True, decimals: str | None = None
) -> Opened:
    """Return an open dataset with its fields.

    Parameters
    ----------
    dataset : Dataset or ParquetDataset
        The dataset.
    decode : bool
        Whether fields that Petastorm stored encoded are delivered decoded.
    decimals : {"float64", "float32", "decimal", None}
        What decimals are read as; None and ``"decimal"`` leave them.
    """
    found = _of_mds(dataset) if isinstance(dataset, Dataset) else _of_parquet(dataset, decode)
    if not become_floats(decimals):
        return found
    return found._replace(
        source=with_float_decimals(found.source, decimals),
        unischema=schema_with_floats(found.unischema, decimals),
    )


def _of_mds(dataset: Dataset) -> Opened:
    stored = stored_unischema(dataset)
    if stored is None:
        return Opened(dataset, infer_unischema(dataset.schema), "mds", inferred=True)
    return Opened(decoded(dataset, stored), stored, "mds")


def _of_parquet(dataset: ParquetDataset, decode: bool) -> Opened:
    for name, type_ in dataset.left_out.items():
        warn_user(f"Column {name!r} has an unsupported field of type {type_}. Ignoring...")
    stored = stored_unischema(dataset)
    if stored is None:
        return Opened(dataset, infer_unischema(dataset.schema), "parquet", inferred=True)
    named = row_group_counts(dataset.common_metadata)
    others = [file.name for file in dataset.files if named and file.name not in named]
    if others:
        warn_user(
            f"{dataset.url} holds files that its metadata does not list: {others[:3]}, "
            f"{len(others)} in all. Their rows are read, too, with the schema {stored._name!r}. "
            "If a refused materialize_dataset block has left these files, remove them; otherwise "
            "add them to the metadata with an empty block with that schema"
        )
    if decode:
        return Opened(decoded(dataset, stored), stored, "petastorm")
    as_stored = infer_unischema(dataset.schema, stored._name)
    return Opened(dataset, as_stored, "petastorm", inferred=True)


def checked_urls(urls: Any) -> Any:
    """Return a URL, or a list of them, with those of path objects.

    Absolute paths on Databricks' mounts count as URLs.

    Raises
    ------
    InvalidArgumentError
        As in Petastorm, unless they name one storage.
    """
    several = [checked_url(url) for url in (urls if isinstance(urls, list) else [urls])]
    for url in several:
        check_no_table_name(url)
        if not has_scheme(url):
            raise InvalidArgumentError(scheme_less(url, "dataset"))
    if len({(urlparse(url).scheme, urlparse(url).netloc) for url in several}) > 1:
        raise InvalidArgumentError(
            f"The dataset url list must contain url with the same scheme and netloc, found "
            f"{several}: read datasets in different storages one after the other"
        )
    return several if isinstance(urls, list) else several[0]


def checked_url(url: Any) -> str:
    """Return a URL, or that of a path object.

    Raises
    ------
    InvalidArgumentError
        If it is something else, or empty.
    """
    url = url_of(url)
    if not isinstance(url, str) or not url:
        raise InvalidArgumentError(
            f"directory url must be a string, found {url!r}: pass a URL or a list of them"
        )
    return url


def scheme_less(path: str, what: str) -> str:
    """Return Petastorm's message for a path in place of a URL, and the URL that it is."""
    return (
        f"ERROR! A scheme-less {what} url ({path}) is no longer supported. Please prepend "
        f'"file://" for local filesystem: write {normalize_url(path)}'
    )


def _is_mds(url: str, storage_options: dict[str, Any] | None) -> bool:
    return Location.of(url, storage_options).exists(INDEX_NAME)
