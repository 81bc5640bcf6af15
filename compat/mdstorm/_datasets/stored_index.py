"""Store row group indexes in ``_common_metadata``, and tell whether they are out of date.

A pickle in Petastorm's form does not say which row groups its numbers mean. So mdstorm keeps a note
beside each that it writes. Petastorm ignores the note.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

from mdstorm._datasets.metadata_keys import (
    ROW_GROUPS_INDEX_KEY,
    ROW_GROUPS_INDEX_NOTE_KEY,
    ROW_GROUPS_PER_FILE_KEY,
)
from mdstorm_backend.parquet import ParquetDataset


def index_entries(source: ParquetDataset, indexes: bytes) -> dict[bytes, bytes]:
    """Return the entries of ``_common_metadata`` for a pickle of indexes of a dataset."""
    return {
        ROW_GROUPS_INDEX_KEY: indexes,
        ROW_GROUPS_INDEX_NOTE_KEY: _note(source, indexes),
        ROW_GROUPS_PER_FILE_KEY: counts_entry(source),
    }


def has_stale_index(source: ParquetDataset, entries: Mapping[bytes, bytes]) -> bool:
    """Whether there are indexes that were built for other row groups than the dataset has.

    Of indexes that Petastorm wrote this is known only if the numbers of row groups have changed.
    """
    indexes = entries.get(ROW_GROUPS_INDEX_KEY)
    if indexes is None:
        return False
    note = entries.get(ROW_GROUPS_INDEX_NOTE_KEY, b"")
    if note.endswith(_digest(indexes)):
        return note != _note(source, indexes)
    counts = row_group_counts(entries)
    return counts is not None and sum(counts.values()) != len(source.row_groups)


def row_groups_identity(source: ParquetDataset) -> str:
    """Return an identity that changes with the row groups, but not when files are copied."""
    groups = [(group.path, group.ordinal, group.num_rows) for group in source.row_groups]
    return hashlib.sha256(repr(groups).encode()).hexdigest()[:16]


def row_group_counts(entries: Mapping[bytes, bytes]) -> dict[str, int] | None:
    """Return the row groups of each file according to metadata; None if they do not say."""
    try:
        found = json.loads(entries[ROW_GROUPS_PER_FILE_KEY])
        return {str(name): int(count) for name, count in found.items()}
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def counted_row_groups(source: ParquetDataset) -> dict[str, int]:
    """Return the row groups of each file, 0 for files without rows."""
    counts = {file.name: 0 for file in source.files}
    for group in source.row_groups:
        counts[group.path] += 1
    return counts


def counts_entry(source: ParquetDataset) -> bytes:
    """Return the row groups of each file as metadata keep them."""
    return json.dumps(counted_row_groups(source)).encode("utf-8")


def _note(source: ParquetDataset, indexes: bytes) -> bytes:
    return row_groups_identity(source).encode("ascii") + b" " + _digest(indexes)


def _digest(indexes: bytes) -> bytes:
    """Tell the pickle that the note belongs to from a later one by Petastorm."""
    return hashlib.sha256(indexes).hexdigest()[:16].encode("ascii")
