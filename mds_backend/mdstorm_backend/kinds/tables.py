"""Delta, Iceberg and Hudi tables, of which the last are recognised, but not read."""

from __future__ import annotations

from abc import abstractmethod
from typing import NoReturn

from mdstorm_backend.errors import UnsupportedTableError
from mdstorm_backend.kinds.kind import Kind, ParquetKind
from mdstorm_backend.kinds.place import Place
from mdstorm_backend.parquet import ParquetDataset, open_snapshot
from mdstorm_backend.storage import Location
from mdstorm_backend.tables import (
    AsOf,
    TableSnapshot,
    is_delta,
    is_hudi,
    is_iceberg,
    is_metadata,
    open_delta,
    open_iceberg,
    unread_message,
)


class Table(ParquetKind):
    """Tables whose own metadata lists the live files and rows."""

    @abstractmethod
    def snapshot(self, location: Location, as_of: AsOf) -> TableSnapshot:
        """Return the live files and rows of a version of the table in a directory."""

    def open(self, place: Place) -> ParquetDataset:
        """Open a version of the table."""
        found = self.snapshot(place.locations[0], place.as_of or AsOf())
        return open_snapshot(
            place.url, found, cache=place.cache, keep_row_groups=place.keep_row_groups
        )


class Delta(Table):
    """Delta tables, whose log lists the live files and rows."""

    name = "a Delta table"
    format = "delta"

    def is_at(self, place: Place) -> bool:
        """Whether the only URL is that of a directory with a log."""
        return place.location is not None and is_delta(place.location)

    def snapshot(self, location: Location, as_of: AsOf) -> TableSnapshot:
        """Read the log."""
        return open_delta(location, as_of)


class Iceberg(Table):
    """Iceberg tables, whose metadata files list the live files and rows."""

    name = "an Iceberg table"
    format = "iceberg"

    def is_named(self, place: Place) -> bool:
        """Whether the only URL is that of a metadata file."""
        return place.location is not None and is_metadata(place.location)

    def is_at(self, place: Place) -> bool:
        """Whether the only URL is that of a directory with metadata."""
        return place.location is not None and is_iceberg(place.location)

    def snapshot(self, location: Location, as_of: AsOf) -> TableSnapshot:
        """Read the metadata file and the manifests."""
        return open_iceberg(location, as_of)


class Hudi(Kind):
    """Hudi tables, which are not read: opening one explains how Spark reads it."""

    name = "a Hudi table"
    asked = "never"

    def is_at(self, place: Place) -> bool:
        """Whether the only URL is that of a directory with Hudi's metadata."""
        return place.location is not None and is_hudi(place.location)

    def open(self, place: Place) -> NoReturn:
        """Raise UnsupportedTableError, which explains how Spark reads the table."""
        raise UnsupportedTableError(unread_message(place.url), url=place.url)

    def refusal(self, place: Place) -> str:
        """Return how Spark reads the table."""
        return f"there is no MDS dataset at {place.url}: {unread_message(place.url)}"
