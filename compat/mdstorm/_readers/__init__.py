"""Readers: arguments, options, and the `Reader` itself."""

from __future__ import annotations

from mdstorm._readers.arguments import (
    DEFAULT_WORKERS,
    DEFAULTS,
    ReaderArguments,
    check_reader,
    rows_of_batch,
)
from mdstorm._readers.keywords import AddedReaderKeywords, ReaderKeywords, accepts, check_keywords
from mdstorm._readers.options import (
    FirstEpoch,
    Framework,
    draws_seed,
    first_epoch,
    reader_options,
    sample_order,
    undecided_decimals,
    warn_of_decimals,
)
from mdstorm._readers.reader import Reader, ReaderPasses, can_pass_over, each_batch, starts_over
from mdstorm._readers.schema_fields import field_patterns, output_schema_name

__all__ = [
    "DEFAULTS",
    "DEFAULT_WORKERS",
    "AddedReaderKeywords",
    "FirstEpoch",
    "Framework",
    "Reader",
    "ReaderArguments",
    "ReaderKeywords",
    "ReaderPasses",
    "accepts",
    "can_pass_over",
    "check_keywords",
    "check_reader",
    "draws_seed",
    "each_batch",
    "field_patterns",
    "first_epoch",
    "output_schema_name",
    "reader_options",
    "rows_of_batch",
    "sample_order",
    "starts_over",
    "undecided_decimals",
    "warn_of_decimals",
]
