"""The speed of converting Parquet to MDS without Spark, and of comparing both row by row.

    python benchmarks/measure_convert.py [--rows 500000]

First, Spark writes the benchmark table as Parquet. Prints one line of JSON; exit code 1 if fewer
than two million rows per second are converted.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from measuring import arguments, emit
from sizes import size
from table import numeric_table, spark_session

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.kit.parquet_files import open_parquet

from mdstorm_backend import open_dataset
from mdstorm_backend.convert import compare, convert_parquet

PROMISED_ROWS_PER_S = 2_000_000
PASSES = size(5, 1)


def rows_per_second(call: Callable[[int], object], rows: int) -> dict[str, float]:
    """Return the speed of several calls after a warm-up; `call` is passed the call's number."""
    call(0)
    took = []
    for number in range(1, PASSES + 1):
        start = time.perf_counter()
        call(number)
        took.append(time.perf_counter() - start)
    return {
        "rows_per_s": rows / statistics.median(took),
        "slowest": rows / max(took),
        "fastest": rows / min(took),
    }


def main() -> int:
    rows = arguments(__doc__).rows
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        session = spark_session()
        numeric_table(session, 0, rows).write.parquet(f"file://{folder}/parquet")
        session.stop()

        def convert(number: int) -> None:
            convert_parquet(open_parquet(f"{folder}/parquet"), f"{folder}/{number}")

        converted = rows_per_second(convert, rows)
        source, target = open_parquet(f"{folder}/parquet"), open_dataset(f"{folder}/0")
        if not compare(source, target).is_same:
            raise RuntimeError("the converted rows differ from the source")
        compared = rows_per_second(lambda number: compare(source, target), rows)
    emit({"rows": rows, "convert": converted, "compare": compared})
    return 0 if converted["rows_per_s"] >= PROMISED_ROWS_PER_S else 1


if __name__ == "__main__":
    sys.exit(main())
