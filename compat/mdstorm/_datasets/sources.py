"""Open the dataset at a reader's URL, which may be MDS, Parquet, or written by Petastorm."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import takewhile
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote, urlparse

import pyarrow as pa

from mdstorm import errors
from mdstorm._datasets.decoded_source import decoded, in_float_types, stored_unischema
from mdstorm._datasets.field_decoders import AS_STORED, Floats, schema_with_floats
from mdstorm._datasets.petastorm_metadata import row_group_counts
from mdstorm.unischema import Unischema, infer_unischema
from mdstorm_backend.base import cached_property, warn_user
from mdstorm_backend.catalogs import hint_of_parts, table_name
from mdstorm_backend.datasets import Dataset, open_dataset
from mdstorm_backend.display import Described, Description
from mdstorm_backend.format import EXTENSIONS, INDEX_NAME
from mdstorm_backend.parquet import ParquetDataset, open_parquet
from mdstorm_backend.read import SampleSource
from mdstorm_backend.storage import Location, has_scheme, normalize_url, open_filesystem, url_of
from mdstorm_backend.tables import AsOf, check_as_of, is_metadata

#: Characters that make a path a pattern.
_PATTERN = frozenset("*?[")
_SCHEMA = "mdstorm.etl.dataset_metadata.get_schema_from_dataset_url(url)"
#: Replacements for attributes of Petastorm's dataset, whose class pyarrow has removed.
_INSTEAD = {
    "common_metadata_path": _SCHEMA,
    "fragments": "pieces, or file_urls",
    "metadata": _SCHEMA,
    "metadata_path": _SCHEMA,
    "partitioning": "pieces[…].partition_keys",
    "partitions": "pieces[…].partition_keys",
    "read": "to_table(), or pyarrow.parquet.read_table",
    "read_pandas": "to_pandas()",
}
_SHARD = re.compile(rf".*\.mds(\.({EXTENSIONS}))?")


class Opened(NamedTuple):
    """An open dataset of any kind.

    Attributes
    ----------
    source : SampleSource
        Its samples.
    unischema : Unischema
        The fields that were stored with the dataset, or inferred from its columns.
    kind : {"mds", "parquet", "petastorm"}
        The kind "petastorm" means Parquet files with a stored schema.
    inferred : bool
        Whether the fields are inferred from the columns.
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
    """Open the dataset at one or several URLs.

    Parameters
    ----------
    urls : str or list of str
        A directory or file, several Parquet files, or several shards of the same MDS dataset.
    storage_options : dict, optional
        Options of the fsspec file system.
    filesystem : object, optional
        A file system of fsspec or pyarrow, which takes precedence over the scheme of the URLs and
        `storage_options`.
    as_of : AsOf, optional
        The version of a Delta or Iceberg table; by default the newest one.

    Raises
    ------
    InvalidArgumentError
        If the URLs are invalid, or `as_of` is given for data without versions.
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
    """Open the MDS dataset, the Parquet files or the table at a path or URL.

    Raises
    ------
    DatasetNotFoundError
        If there is no dataset.
    CorruptDatasetError
        If the data cannot be read.
    """
    if not _PATTERN.intersection(url) and _is_mds(url, storage_options):
        check_as_of(as_of, url)
        return open_dataset(url, storage_options=storage_options)
    return open_parquet_files(url, storage_options, None, as_of, keep_row_groups=keep_row_groups)


def opened(
    dataset: Dataset | ParquetDataset, *, decode: bool = True, floats: Floats = AS_STORED
) -> Opened:
    """Decode an open dataset by its schema, or infer the schema.

    Parameters
    ----------
    dataset : Dataset or ParquetDataset
        The dataset.
    decode : bool
        Whether fields that Petastorm stored encoded are decoded.
    floats : Floats
        The types in which decimals and floating-point numbers are read.
    """
    stored = stored_unischema(dataset)
    is_parquet = isinstance(dataset, ParquetDataset)
    if isinstance(dataset, ParquetDataset):
        _warn_of_files(dataset, stored)
    if stored is None:
        inferred = infer_unischema(dataset.schema)
        found = Opened(dataset, inferred, "parquet" if is_parquet else "mds", inferred=True)
    elif is_parquet and not decode:
        as_stored = infer_unischema(dataset.schema, stored._name)
        found = Opened(dataset, as_stored, "petastorm", inferred=True)
    else:
        found = Opened(decoded(dataset, stored), stored, "petastorm" if is_parquet else "mds")
    if not floats:
        return found
    return found._replace(
        source=in_float_types(found.source, floats),
        unischema=schema_with_floats(found.unischema, floats),
    )


def _warn_of_files(dataset: ParquetDataset, stored: Unischema | None) -> None:
    """Warn about columns of unsupported types, and about files that the metadata does not list."""
    for name, type_ in dataset.left_out.items():
        warn_user(f"Column {name!r} has an unsupported field of type {type_}. Ignoring...")
    named = row_group_counts(dataset.common_metadata)
    others = [file.name for file in dataset.files if named and file.name not in named]
    if others and stored is not None:
        warn_user(
            f"{dataset.url} holds files that its metadata does not list: {others[:3]}, "
            f"{len(others)} in all. Their rows are also read, with the schema {stored._name!r}. "
            "If a failed materialize_dataset block left these files behind, remove them; otherwise "
            "add them to the metadata with an empty block with that schema"
        )


def checked_urls(urls: Any) -> Any:
    """Check and return one URL or a list of URLs; path objects become URLs.

    Absolute paths on Databricks mounts count as URLs.

    Raises
    ------
    InvalidArgumentError
        As in Petastorm, unless all URLs have the same scheme and host.
    """
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


def _is_mds(url: str, storage_options: dict[str, Any] | None) -> bool:
    """Whether there is an MDS dataset at a URL.

    Catalog tables are never MDS, and their credentials may not allow looking for an index.
    """
    if table_name(url) is not None:
        return False
    location = Location.of(url, storage_options)
    return not is_metadata(location) and location.exists(INDEX_NAME)


class Piece(NamedTuple):
    """A file of a dataset.

    Attributes
    ----------
    path : str
        Path in its file system.
    row_group : None
        A piece is a whole file, as in Petastorm.
    partition_keys : list of tuple
        Name and value of each partition column.
    """

    path: str
    row_group: None
    partition_keys: list[tuple[str, Any]]


class ReadDataset(Described):
    """A reader's dataset, with the attributes of its source and of Petastorm's dataset.

    Parameters
    ----------
    source : SampleSource
        The data to read, without row groups that filters and selectors exclude.

    Attributes
    ----------
    source : SampleSource
        The data to read.
    """

    def __init__(self, source: SampleSource) -> None:
        self.source = source

    def __len__(self) -> int:
        return len(self.source)

    def _mdstorm_description(self, *, full: bool) -> Description:
        if isinstance(self.source, Described):
            return self.source._mdstorm_description(full=full)
        return Description([repr(self.source)])

    def __getattr__(self, name: str) -> Any:
        if name in _INSTEAD:
            raise errors.MissingAttributeError(
                f"the dataset of this reader has no {name!r}: use {_INSTEAD[name]} instead",
                name=name,
            )
        if name == "source":  # not set yet while an object is being copied
            raise AttributeError(name)
        return getattr(self.source, name)

    @property
    def schema(self) -> pa.Schema:
        """The columns with their stored types, partition columns first."""
        stored = self._stored
        parquet = isinstance(stored, ParquetDataset)
        return stored.arrow_schema if parquet else stored.schema.arrow_schema

    @property
    def table_version(self) -> int | None:
        """The version of a Delta table, or an Iceberg snapshot's id; None for other datasets."""
        stored = self._stored
        return stored.table_version if isinstance(stored, ParquetDataset) else None

    @property
    def files(self) -> list[str]:
        """Paths of all files or shards, in reading order."""
        location = self._stored.location
        root = location.path
        return [root + url.removeprefix(location.url) for url in self._stored.file_urls]

    @property
    def paths(self) -> str | list[str]:
        """Path of the directory or the only file, or the paths of several files."""
        stored, files = self._stored, self.files
        if stored.url == stored.location.url:
            return str(stored.location.path)
        return files[0] if len(files) == 1 else files

    @property
    def pieces(self) -> list[Piece]:
        """The files or shards."""
        stored = self._stored
        groups = stored.row_groups if isinstance(stored, ParquetDataset) else ()
        keys = {group.path: list(group.partition.items()) for group in groups}
        root = f"{stored.location.path}/"
        return [Piece(path, None, keys.get(path.removeprefix(root), [])) for path in self.files]

    @property
    def fs(self) -> Any:
        """The fsspec file system."""
        location = self._stored.location
        if location.filesystem is not None:
            return location.filesystem
        return open_filesystem(location.url, location.storage_options)[0]

    filesystem = fs

    @cached_property
    def _stored(self) -> Any:
        """The stored dataset, without views and decoding."""
        found: Any = self.source
        while inner := next((name for name in ("stored", "source") if hasattr(found, name)), ""):
            found = getattr(found, inner)
        return found


def open_files(
    urls: Sequence[str],
    *,
    directory: str | None = None,
    storage_options: dict[str, Any] | None = None,
    filesystem: Any = None,
    as_of: AsOf | None = None,
) -> Dataset | ParquetDataset:
    """Open selected files from a dataset, in the given order.

    Parameters
    ----------
    urls : sequence of str
        All or some shards of one MDS dataset, or Parquet files, which have no partition columns.
    directory : str, optional
        Directory of the dataset, if it was named; by default, the innermost one that contains all
        shards of an MDS dataset.
    storage_options : dict, optional
        Options of the fsspec file system.
    filesystem : object, optional
        A file system of fsspec or pyarrow, only for Parquet files.
    as_of : AsOf, optional
        The version of a Delta or Iceberg table, whose URL is passed instead of file URLs.

    Raises
    ------
    InvalidArgumentError
        If there are no files, the shards belong to different datasets, or `as_of` is given for data
        that has no versions.
    UnsupportedArgumentError
        If `filesystem` is given with shards.
    DatasetNotFoundError
        If there is no such dataset.
    """
    if not urls and directory is None:
        raise errors.InvalidArgumentError(
            "the list of files is empty: pass at least one file, or the dataset's directory"
        )
    if urls and not any(map(is_shard, urls)):
        parquet = open_parquet_files(list(urls), storage_options, filesystem, as_of)
        if directory is None or parquet.root is not None:
            return parquet
        return _in_directory(parquet, Location.of(directory, storage_options, filesystem))
    check_as_of(as_of, directory or directory_of(urls))
    if filesystem is not None:
        raise errors.UnsupportedArgumentError(
            "filesystem= reads Parquet files, but these are MDS shards: leave it out, and pass "
            "storage_options if their storage needs them"
        )
    dataset = open_dataset(directory or directory_of(urls), storage_options=storage_options)
    # These files are the whole dataset: its rows are numbered from 0.
    chosen = dataset.with_shards(_numbers_of(urls, dataset))
    return replace(chosen, starts=None, is_named=directory is not None)


def _in_directory(dataset: ParquetDataset, directory: Location) -> ParquetDataset:
    """Return a dataset of files with the directory that was named, if it contains them."""
    is_inside = all(url.startswith(directory.file_url("")) for url in dataset.file_urls)
    return replace(dataset, root=directory) if is_inside else dataset


def _numbers_of(urls: Sequence[str], dataset: Dataset) -> list[int]:
    if not urls and dataset.file_urls:
        raise errors.InvalidArgumentError(
            f"the list of files is empty, but the dataset at {dataset.url} has "
            f"{len(dataset.file_urls)} shards: pass some of them, as in "
            "converter.file_urls"
        )
    numbers = {normalize_url(url): number for number, url in enumerate(dataset.file_urls)}
    unknown = [url for url in urls if normalize_url(url) not in numbers]
    if unknown:
        raise errors.InvalidArgumentError(
            f"{unknown[0]} is not one of the {len(numbers)} shards of the dataset at "
            f"{dataset.url}: pass shards of one dataset, as in converter.file_urls"
        )
    return [numbers[normalize_url(url)] for url in urls]


def is_shard(url: str) -> bool:
    """Whether a URL has the file extension of an MDS shard."""
    return _SHARD.fullmatch(url) is not None


def directory_of(urls: Sequence[str]) -> str:
    """Return the innermost directory that contains all the given files."""
    parts = [normalize_url(url).split("/")[:-1] for url in urls]
    common = takewhile(lambda names: len(set(names)) == 1, zip(*parts, strict=False))
    return "/".join(names[0] for names in common)


def open_parquet_files(
    urls: str | list[str],
    storage_options: dict[str, Any] | None,
    filesystem: Any,
    as_of: AsOf | None = None,
    *,
    keep_row_groups: bool = False,
) -> ParquetDataset:
    """Open Parquet files by plain URLs, or by URLs that Spark has percent-encoded.

    Raises
    ------
    NoMatchingFieldsError
        If no column is of a type that can be read.
    """
    options: dict[str, Any] = {
        "storage_options": storage_options,
        "filesystem": filesystem,
        "as_of": as_of,
        "keep_row_groups": keep_row_groups,
    }
    try:
        dataset = open_parquet(urls, **options)
    except errors.DatasetNotFoundError:
        decoded = unquote(urls) if isinstance(urls, str) else [unquote(url) for url in urls]
        if decoded == urls:
            raise
        dataset = open_parquet(decoded, **options)
    if dataset.left_out and not dataset.schema.names:
        raise errors.NoMatchingFieldsError(
            f"{dataset.url} has no column of a type that can be read, only "
            f"{typed_columns(dataset.left_out)}: convert one, for example with Spark"
        )
    return dataset


def typed_columns(types: Mapping[str, pa.DataType]) -> str:
    """Return names of columns with their types, as messages list them."""
    return ", ".join(f"{name!r} of type {type_}" for name, type_ in types.items())
