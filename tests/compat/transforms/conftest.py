"""Readers that end with their test."""

from tests.compat.small_parquet import _no_reader_goes_on

__all__ = ["_no_reader_goes_on"]
