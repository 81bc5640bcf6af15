"""Delta, Iceberg and Hudi tables, of which the last are recognised, but not read."""

from __future__ import annotations

from typing import NoReturn

from mdstorm_backend.errors import UnsupportedTableError
from mdstorm_backend.kinds.kind import Kind
from mdstorm_backend.kinds.place import Place
from mdstorm_backend.parquet import ParquetDataset, open_snapshot
from mdstorm_backend.tables import (
    AsOf,
    is_delta,
    is_hudi,
    is_iceberg,
    is_metadata,
    open_delta,
    open_iceberg,
    unread_message,
)


class Delta(Kind):
    """Delta tables, whose log lists the live files and rows."""

    name = "a Delta table"
    format = "delta"

    def is_at(self, place: Place) -> bool:
        """Whether the only URL is that of a directory with a log."""
        return place.location is not None and is_delta(place.location)

    def open(self, place: Place) -> ParquetDataset:
        """Open a version of the table."""
        table = open_delta(place.locations[0], place.as_of or AsOf())
        return open_snapshot(
            place.url, table, cache=place.cache, keep_row_groups=place.keep_row_groups
        )


class Iceberg(Kind):
    """Iceberg tables, whose metadata files list the live files and rows."""

    name = "an Iceberg table"
    format = "iceberg"

    def is_named(self, place: Place) -> bool:
        """Whether the only URL is that of a metadata file."""
        return place.location is not None and is_metadata(place.location)

    def is_at(self, place: Place) -> bool:
        """Whether the only URL is that of a directory with metadata."""
        return place.location is not None and is_iceberg(place.location)

    def open(self, place: Place) -> ParquetDataset:
        """Open a snapshot of the table."""
        table = open_iceberg(place.locations[0], place.as_of or AsOf())
        return open_snapshot(
            place.url, table, cache=place.cache, keep_row_groups=place.keep_row_groups
        )


class Hudi(Kind):
    """Hudi tables, whose files may hold rows that were deleted or replaced."""

    name = "a Hudi table"

    def is_at(self, place: Place) -> bool:
        """Whether the only URL is that of a directory with Hudi's metadata."""
        return place.location is not None and is_hudi(place.location)

    def open(self, place: Place) -> NoReturn:
        """Raise UnsupportedTableError, which explains how Spark reads the table."""
        raise UnsupportedTableError(unread_message(place.url), url=place.url)

    def refusal(self, place: Place) -> str:
        """Return how Spark reads the table."""
        return f"there is no MDS dataset at {place.url}: {unread_message(place.url)}"
