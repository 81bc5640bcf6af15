"""Readers: arguments, options, and the `Reader` itself."""

from __future__ import annotations

from mdstorm._readers.arguments import (
    DEFAULT_WORKERS,
    DEFAULTS,
    ReaderArguments,
    check_reader,
    rows_of_batch,
)
from mdstorm._readers.decimals import Framework, undecided_decimals, warn_of_decimals
from mdstorm._readers.items import each_batch
from mdstorm._readers.keywords import AddedReaderKeywords, ReaderKeywords, accepts, check_keywords
from mdstorm._readers.options import reader_options
from mdstorm._readers.reader import Reader
from mdstorm._readers.reader_passes import ReaderPasses, can_pass_over, is_reader, starts_over
from mdstorm._readers.reading_order import draws_seed, sample_order
from mdstorm._readers.schema_fields import field_patterns, output_schema_name
from mdstorm._readers.succession import FirstEpoch, first_epoch

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
    "is_reader",
    "output_schema_name",
    "reader_options",
    "rows_of_batch",
    "sample_order",
    "starts_over",
    "undecided_decimals",
    "warn_of_decimals",
]
