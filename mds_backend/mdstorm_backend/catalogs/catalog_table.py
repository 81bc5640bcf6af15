"""`CatalogTable`: the location and format of a table."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from mdstorm_backend.catalogs.names import TableName
from mdstorm_backend.storage import Location

Format: TypeAlias = Literal["delta", "iceberg", "parquet"]


@dataclass(frozen=True)
class CatalogTable:
    """A table that was found in a catalog.

    Attributes
    ----------
    name : TableName
        Its name.
    location : Location
        The table's directory, or an Iceberg table's metadata file, with a credential provider.
    format : {"delta", "iceberg", "parquet"}
        How it is stored.
    table_id : str
        Id of the table. A table that is dropped and created again has a different id.
    """

    name: TableName
    location: Location
    format: Format
    table_id: str
