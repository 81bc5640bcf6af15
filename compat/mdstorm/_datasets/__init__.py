"""Metadata and column decoding for stored datasets with a Unischema."""

from __future__ import annotations

from mdstorm._datasets.decoded_source import (
    DecodedSource,
    decoded,
    in_float_types,
    stored_unischema,
    unischema_to_json,
    value_cells,
    with_declared_partitions,
)
from mdstorm._datasets.field_decoders import DecodedField, Floats, decoded_field, is_untyped
from mdstorm._datasets.file_versions import file_versions
from mdstorm._datasets.logged_data import LoggedData
from mdstorm._datasets.opening import open_dataset
from mdstorm._datasets.petastorm_metadata import (
    COMMON_METADATA,
    ROW_GROUPS_INDEX_KEY,
    ROW_GROUPS_PER_FILE_KEY,
    UNISCHEMA_EXTRA,
    UNISCHEMA_KEY,
    add_metadata,
    check_columns,
    check_no_table,
    check_parquet,
    check_stored,
    common_metadata_of,
    has_stale_index,
    index_entries,
    location_of,
    open_written,
    write_petastorm_metadata,
)
from mdstorm._datasets.source_urls import checked_source, checked_url, checked_urls, scheme_less
from mdstorm._datasets.sources import Opened, ReadDataset, opened
from mdstorm._datasets.stored_place import StoredPlace

__all__ = [
    "COMMON_METADATA",
    "ROW_GROUPS_INDEX_KEY",
    "ROW_GROUPS_PER_FILE_KEY",
    "UNISCHEMA_EXTRA",
    "UNISCHEMA_KEY",
    "DecodedField",
    "DecodedSource",
    "Floats",
    "LoggedData",
    "Opened",
    "ReadDataset",
    "StoredPlace",
    "add_metadata",
    "check_columns",
    "check_no_table",
    "check_parquet",
    "check_stored",
    "checked_source",
    "checked_url",
    "checked_urls",
    "common_metadata_of",
    "decoded",
    "decoded_field",
    "file_versions",
    "has_stale_index",
    "in_float_types",
    "index_entries",
    "is_untyped",
    "location_of",
    "open_dataset",
    "open_written",
    "opened",
    "scheme_less",
    "stored_unischema",
    "unischema_to_json",
    "value_cells",
    "with_declared_partitions",
    "write_petastorm_metadata",
]
