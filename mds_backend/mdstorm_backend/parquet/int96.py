"""Spark's INT96 timestamps, which Arrow reads in a unit of the caller's choice."""

from __future__ import annotations

from functools import cache
from typing import Literal

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["int96_unit"]


@cache
def int96_unit() -> Literal["us", "ns"]:
    """Return the unit in which this version of Arrow reads them correctly.

    Microseconds reach from year 1 to 9999, but Arrow 14 to 18, at least, get times before 1970
    wrong; nanoseconds reach from 1677 to 2262.
    """
    before_1970 = pa.array([-1], pa.timestamp("us"))
    sink = pa.BufferOutputStream()
    pq.write_table(
        pa.table({"t": before_1970}),
        sink,
        use_deprecated_int96_timestamps=True,
    )
    file = pq.ParquetFile(pa.BufferReader(sink.getvalue()), coerce_int96_timestamp_unit="us")
    return "us" if file.read(use_threads=False)["t"].chunk(0).equals(before_1970) else "ns"
