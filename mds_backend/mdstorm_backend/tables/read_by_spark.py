"""The way out for tables that are not read here."""

from __future__ import annotations


def read_by_spark(url: str, kind: str = "delta") -> str:
    """Return the sentence that says how Spark reads a table, by the name of its format."""
    return (
        "Read it by Spark and convert the frame: "
        f"make_spark_converter(spark.read.format({kind!r}).load({url!r}))"
    )
