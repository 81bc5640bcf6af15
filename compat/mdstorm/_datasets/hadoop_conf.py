"""Set Hadoop options temporarily, while Parquet files are written."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_MIB = 1 << 20
#: Rows after which the size of a row group is looked at first: rows with images are large.
_FIRST_CHECK = "3"


@contextmanager
def parquet_settings(spark: Any, row_group_size_mb: int | None) -> Iterator[None]:
    """Make Spark write row groups of a given size, without summaries, in a ``with`` block.

    The previous settings are restored at its end, also if it raises. Sessions of Spark Connect, and
    None, have no settings to change.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession or None
        The session.
    row_group_size_mb : int or None
        Size of a row group in MiB.
    """
    conf = _hadoop_configuration(spark)
    if conf is None:
        yield
        return
    settings = {
        "parquet.block.size.row.check.min": _FIRST_CHECK,
        "parquet.row-group.size.row.check.min": _FIRST_CHECK,
        "parquet.summary.metadata.level": "NONE",
    }
    if row_group_size_mb:
        settings["parquet.block.size"] = str(int(row_group_size_mb * _MIB))
    before = {key: conf.get(key) for key in settings}
    try:
        for key, value in settings.items():
            conf.set(key, value)
        yield
    finally:
        for key, old in before.items():
            if old is None:
                conf.unset(key)
            else:
                conf.set(key, old)


def _hadoop_configuration(spark: Any) -> Any:
    """Return the configuration of a classic session; None for any other."""
    try:
        context = getattr(spark, "sparkContext", None)
    except Exception:  # Spark Connect raises an error of its own
        return None
    java_context = getattr(context, "_jsc", None)
    return None if java_context is None else java_context.hadoopConfiguration()
