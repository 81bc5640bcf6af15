"""Tell names of tables from paths, and how Spark reads a table that is not read here."""

from __future__ import annotations

import re

from mdstorm_backend.errors import UnsupportedURLError

_PART = r"(?:`(?:[^`]|``)+`|[A-Za-z_][A-Za-z0-9_-]*)"
_NAME = re.compile(rf"{_PART}\.{_PART}\.{_PART}")
_WITHOUT_CATALOG = re.compile(rf"{_PART}\.{_PART}")


def is_table_name(text: str) -> bool:
    """Whether a text has the form ``catalog.schema.table``; parts may be quoted by backticks."""
    return _NAME.fullmatch(text) is not None


def is_table_without_catalog(text: str) -> bool:
    """Whether a text has the form ``schema.table``, and is not the name of a Parquet file."""
    return _WITHOUT_CATALOG.fullmatch(text) is not None and not text.endswith(".parquet")


def check_no_table_name(text: str) -> None:
    """Refuse the name of a table where a path is needed.

    Raises
    ------
    UnsupportedURLError
        If it is one; the message says how to read such a table.
    """
    if is_table_name(text):
        raise UnsupportedURLError(
            f"{text!r} looks like the name of a table in a catalog, which only Spark can resolve: "
            f"pass the path of the table's files, or spark.table({text!r}) to make_spark_converter"
        )


def read_by_spark(url: str, kind: str = "delta") -> str:
    """Return the sentence that says how Spark reads a table, by the name of its format."""
    return (
        "Read it by Spark and convert the frame: "
        f"make_spark_converter(spark.read.format({kind!r}).load({url!r}))"
    )
