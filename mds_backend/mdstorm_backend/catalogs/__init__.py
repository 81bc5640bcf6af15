"""Find tables by name in a catalog, and obtain credentials for their files from it."""

from __future__ import annotations

from mdstorm_backend.catalogs.catalog_table import CatalogTable
from mdstorm_backend.catalogs.find import find_table
from mdstorm_backend.catalogs.names import (
    TableName,
    check_destination,
    check_no_table_name,
    check_parts,
    hint_of_parts,
    table_name,
)
from mdstorm_backend.catalogs.objects import GivenTable, given_table, is_table
from mdstorm_backend.catalogs.vending import at_access_point

__all__ = [
    "CatalogTable",
    "GivenTable",
    "TableName",
    "at_access_point",
    "check_destination",
    "check_no_table_name",
    "check_parts",
    "find_table",
    "given_table",
    "hint_of_parts",
    "is_table",
    "table_name",
]
