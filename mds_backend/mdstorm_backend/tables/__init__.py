"""Delta and Iceberg tables, whose files may hold deleted rows; Hudi tables are only detected."""

from __future__ import annotations

from mdstorm_backend.tables.delta import is_delta, open_delta
from mdstorm_backend.tables.iceberg import is_iceberg, is_metadata, open_iceberg
from mdstorm_backend.tables.layouts import is_hudi, unread_message
from mdstorm_backend.tables.snapshot import AsOf, TableSnapshot, check_as_of

__all__ = [
    "AsOf",
    "TableSnapshot",
    "check_as_of",
    "is_delta",
    "is_hudi",
    "is_iceberg",
    "is_metadata",
    "open_delta",
    "open_iceberg",
    "unread_message",
]
