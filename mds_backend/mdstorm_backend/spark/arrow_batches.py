"""Limit how many rows Spark puts into one Arrow batch.

Spark 3.5 limits Arrow batches only by rows, 10,000 by default, and a batch whose buffers exceed
2 GiB kills the job. Columns of unbounded size therefore need smaller batches. Spark 4 can also
limit bytes, but does not do so by default in all releases, so it is treated the same.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from mdstorm_backend.format.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CONF = "spark.sql.execution.arrow.maxRecordsPerBatch"

#: As many rows as Spark puts into a batch by default.
_DEFAULT_ROWS = 10_000

_setting = threading.RLock()


def rows_per_batch(schema: Schema) -> int:
    """Most rows that an Arrow batch of these columns may have: the widest kind of column decides.

    The executor joins small batches again, so the price of a small number is a few microseconds a
    row.
    """
    rows = (column.parsed_encoding.rows_per_batch for column in schema)
    return min(rows, default=_DEFAULT_ROWS)


@contextmanager
def sized_arrow_batches(session: SparkSession, schema: Schema) -> Iterator[None]:
    """Limit the rows of Arrow batches while a DataFrame of `schema` is written.

    A smaller limit that the user has set is kept. The previous setting is restored at the end. It
    belongs to the whole session, so blocks that change it run one at a time.
    """
    with _setting:
        yield from _sized(session, rows_per_batch(schema))


def _sized(session: SparkSession, wanted: int) -> Iterator[None]:
    before = session.conf.get(_CONF, None)
    current = int(before) if before else 0
    if 0 < current <= wanted:
        yield
        return
    session.conf.set(_CONF, str(wanted))
    try:
        yield
    finally:
        if before is None:
            session.conf.unset(_CONF)
        else:
            session.conf.set(_CONF, before)
