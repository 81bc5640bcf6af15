"""Small Parquet files, and readers that end with their test."""

from tests.compat.small_parquet import _no_reader_goes_on, ten, thirty

__all__ = ["_no_reader_goes_on", "ten", "thirty"]
