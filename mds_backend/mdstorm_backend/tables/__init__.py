"""Tables whose rows are not all rows of their files: Delta and Iceberg; others are recognised."""

from __future__ import annotations

from mdstorm_backend.tables.delta import (
    check_as_of,
    is_delta,
    open_delta,
)
from mdstorm_backend.tables.delta_log import is_absolute
from mdstorm_backend.tables.iceberg import is_iceberg, open_iceberg
from mdstorm_backend.tables.layouts import (
    check_layout,
    check_no_part_of_a_table,
    may_be_part_of_a_table,
    other_format,
)
from mdstorm_backend.tables.snapshot import (
    AsOf,
    DeadRows,
    LiveFile,
    TableField,
    TableSnapshot,
    check_no_table_name,
    is_table_name,
    is_table_without_catalog,
)

__all__ = [
    "AsOf",
    "DeadRows",
    "LiveFile",
    "TableField",
    "TableSnapshot",
    "check_as_of",
    "check_layout",
    "check_no_part_of_a_table",
    "check_no_table_name",
    "is_absolute",
    "is_delta",
    "is_iceberg",
    "is_table_name",
    "is_table_without_catalog",
    "may_be_part_of_a_table",
    "open_delta",
    "open_iceberg",
    "other_format",
]
