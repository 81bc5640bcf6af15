"""Delta and Iceberg tables, whose files may hold deleted rows; Hudi tables are only detected."""

from __future__ import annotations

from mdstorm_backend.tables.iceberg import is_metadata
from mdstorm_backend.tables.layouts import other_format
from mdstorm_backend.tables.snapshot import AsOf, check_as_of

__all__ = ["AsOf", "check_as_of", "is_metadata", "other_format"]
