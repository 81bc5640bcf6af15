"""Set Hadoop options temporarily, while Parquet files are written."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mdstorm_backend.spark import session_conf

_SIZE = "parquet.block.size"
_MIB = 1 << 20
#: Rows after which the size of a row group is looked at first: rows with images are large.
_FIRST_CHECK = "3"

_logger = logging.getLogger(__name__)


@contextmanager
def parquet_settings(spark: Any, row_group_size_mb: int | None) -> Iterator[None]:
    """Make Spark write row groups of a given size, without summaries, in a ``with`` block.

    The previous settings are restored at its end, also if it raises. Sessions of Spark Connect have
    no Hadoop options, and hand those of their own configuration over to Parquet.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession or None
        The session; None has no settings to change.
    row_group_size_mb : int or None
        Size of a row group in MiB.
    """
    settings = {
        "parquet.block.size.row.check.min": _FIRST_CHECK,
        "parquet.row-group.size.row.check.min": _FIRST_CHECK,
        "parquet.summary.metadata.level": "NONE",
    }
    if row_group_size_mb:
        settings[_SIZE] = str(int(row_group_size_mb * _MIB))
    conf = _hadoop_configuration(spark)
    if conf is None:
        with session_conf(spark, {} if spark is None else settings) as refused:
            if _SIZE in refused:
                _logger.warning(
                    "row_group_size_mb=%s has no effect, because this session refuses the conf "
                    "%s. Write with df.write.option(%r, %r) to set it",
                    row_group_size_mb,
                    _SIZE,
                    _SIZE,
                    settings[_SIZE],
                )
            yield
        return
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
        java_context = getattr(getattr(spark, "sparkContext", None), "_jsc", None)
        return None if java_context is None else java_context.hadoopConfiguration()
    except Exception:  # each kind of session that refuses it raises an error of its own
        return None
