"""Read Petastorm's pickles as data, without executing them, and write such pickles by hand."""

from __future__ import annotations

from mdstorm._pickles.stored_pickles import (
    StoredIndex,
    dump_field,
    dump_indexes,
    dump_unischema,
    load_indexes,
    load_unischema,
)

__all__ = [
    "StoredIndex",
    "dump_field",
    "dump_indexes",
    "dump_unischema",
    "load_indexes",
    "load_unischema",
]
