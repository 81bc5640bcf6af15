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
from mdstorm_backend.spark.session import read_conf, session_conf

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
    belongs to the whole session, so blocks that change it run one at a time. Where the session
    refuses it, batches are as large as Spark makes them.
    """
    wanted = rows_per_batch(schema)
    with _setting:
        current = int(read_conf(session, _CONF) or 0)
        is_small = 0 < current <= wanted
        with session_conf(session, {} if is_small else {_CONF: str(wanted)}):
            yield
