"""Keys of Petastorm's metadata in Parquet files, and of ours in an index."""

from __future__ import annotations

#: File at the root of a dataset that holds nothing but metadata.
COMMON_METADATA = "_common_metadata"
#: File with all footers. Where it exists, Petastorm reads no row groups that it does not name.
SUMMARY_METADATA = "_metadata"

#: Keys of its key/value metadata: the pickled schema, how many row groups the files have (JSON),
#: and pickled indexes of row groups.
UNISCHEMA_KEY = b"dataset-toolkit.unischema.v1"
ROW_GROUPS_PER_FILE_KEY = b"dataset-toolkit.num_row_groups_per_file.v1"
ROW_GROUPS_INDEX_KEY = b"dataset-toolkit.rowgroups_index.v1"
#: Which row groups the indexes were built for, noted by mdstorm: see `stored_index`.
ROW_GROUPS_INDEX_NOTE_KEY = b"mdstorm.rowgroups_index.v1"

#: Key of the schema, as JSON, in mdstorm's entry of an MDS index.
UNISCHEMA_EXTRA = "unischema"
