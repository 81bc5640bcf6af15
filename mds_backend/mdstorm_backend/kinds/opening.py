"""Open data of any kind. Only this module decides of which kind data are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from mdstorm_backend.base import map_files
from mdstorm_backend.datasets import SampleDataset, typed_columns
from mdstorm_backend.errors import (
    CorruptDatasetError,
    DatasetNotFoundError,
    MDStormError,
    NoMatchingFieldsError,
)
from mdstorm_backend.kinds.kind import KINDS, Kind, kinds_asked
from mdstorm_backend.kinds.mds import missing_index, unfinished
from mdstorm_backend.kinds.place import Openable, Place, place_of
from mdstorm_backend.parquet import ParquetDataset
from mdstorm_backend.read import fingerprints_of
from mdstorm_backend.tables import AsOf, check_as_of


def open_stored(
    source: Any,
    *,
    storage_options: dict[str, Any] | None = None,
    as_of: AsOf | None = None,
    **how: Any,
) -> SampleDataset:
    """Open what a user passed, as it is stored.

    There is no other way from a URL to a dataset, but for streams, which only open MDS datasets.

    Parameters
    ----------
    source : str, path, list of them, table, Openable or SampleDataset
        The URL or path of a directory, a file, a pattern, an index or a table's metadata file; the
        name of a table in Unity Catalog; several Parquet files, or shards of one MDS dataset; a
        table of pyiceberg or deltalake; or a converter. If there is nothing at a URL that Spark has
        percent-encoded, it is decoded. An open dataset is returned itself.
    storage_options : dict, optional
        Options for the fsspec file system.
    as_of : AsOf, optional
        The version of a Delta or Iceberg table; by default the newest one.
    **how
        Other attributes of `Place`.

    Returns
    -------
    SampleDataset
        The dataset.

    Raises
    ------
    ArgumentTypeError, InvalidArgumentError
        If an argument is invalid, or a version is requested of data without versions.
    DatasetNotFoundError
        If there are no data.
    UnsupportedTableError
        If the data are of a kind that is not read.
    NoMatchingFieldsError
        If no column is of a type that can be read.
    CorruptDatasetError, CredentialsError, StorageError
        If the data cannot be read.
    """
    if isinstance(source, Openable):
        source = source._mdstorm_open()
    if isinstance(source, SampleDataset):
        check_as_of(as_of, source.url)
        return source
    place = place_of(source, storage_options, as_of=as_of, **how)
    try:
        dataset = _open_place(place)
    except DatasetNotFoundError:
        decoded = place.decoded()
        if decoded.urls == place.urls:
            raise
        dataset = _open_place(decoded)
    if dataset.columns_left_out and not dataset.schema.names:
        raise NoMatchingFieldsError(
            f"{dataset.url} has no column of a type that can be read, only "
            f"{typed_columns(dataset.columns_left_out)}: convert one, for example with Spark"
        )
    return dataset


def _open_place(place: Place) -> SampleDataset:
    """Open the data at a place by the kind to which they belong."""
    if place.table is not None:
        (kind,) = [kind for kind in KINDS.values() if kind.format == place.table.format]
        dataset = kind.open(place)
        assert isinstance(dataset, ParquetDataset)  # catalogs have no other tables
        # States and cached files of a dropped table must not be used for a new table of that name.
        table_id = place.table.table_id
        fingerprint, former = fingerprints_of(dataset, lambda of: f"{table_id} {of}")
        return replace(dataset, fingerprint=fingerprint, former=former)
    for kind in [] if place.as_of else kinds_asked("first"):
        if (found := kind.find(place)) is not None:
            return found
    kind = _kind_of(place)
    try:
        return kind.open(place)
    except (DatasetNotFoundError, CorruptDatasetError) as error:
        message = None if place.location is None else missing_index(place.location, error.url)
        if message is None:
            raise
        raise DatasetNotFoundError(message, url=place.url) from None


def _kind_of(place: Place) -> Kind:
    """Return the kind of data without an index."""
    if named := [kind for kind in KINDS.values() if kind.is_named(place)]:
        return named[0]
    others, (last,) = kinds_asked("then"), kinds_asked("last")
    is_there = map_files(lambda kind: kind.is_at(place), others)
    return next((kind for kind, there in zip(others, is_there, strict=True) if there), last)


def what_is_at(url: str) -> str:
    """Return what is at a URL, for messages: the kind of the data, as far as it is known."""
    with suppress(MDStormError, OSError):
        place = place_of(url)
        kinds = kinds_asked("first", "then", "never", "last")
        if (kind := next((kind for kind in kinds if kind.is_at(place)), None)) is not None:
            return kind.described(place)[0]
    return "of another kind"


@contextmanager
def explaining_absence(storage_options: dict[str, Any] | None = None) -> Iterator[None]:
    """If a ``with`` block finds no MDS dataset, explain what is there, and what reads it.

    Failures of the storage are suppressed meanwhile, because the block's error is raised anyway.
    """
    try:
        yield
    except DatasetNotFoundError as error:
        message = None
        with suppress(MDStormError, OSError):
            message = _found_instead(place_of(error.url, storage_options))
        if message is None:
            raise
        raise DatasetNotFoundError(message, url=error.url) from error.__cause__


def _found_instead(place: Place) -> str | None:
    """Return what is at a place without an index; None if nothing is known about it."""
    if (message := unfinished(place.locations[0])) is not None:
        return message
    kinds = kinds_asked("then", "never", "last")
    kind = next((kind for kind in kinds if kind.is_at(place)), None)
    return None if kind is None else kind.refusal(place)
