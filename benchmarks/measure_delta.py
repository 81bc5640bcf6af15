"""Opening a Delta table with many files and deletion vectors, compared with deltalake.

    python benchmarks/measure_delta.py [--files 1000]

Half of the vectors are in the log, and half in separate files. In alternation, deltalake lists the
live files with their statistics and reads the vectors, and mdstorm creates a reader. Prints one
line of JSON, in seconds; exit code 1 if the median time to open is more than twice the median time
to list.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable
from sizes import size

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.kit.delta_tables import (
    OLD_PROTOCOL,
    WITH_VECTORS,
    add,
    commit,
    field,
    metadata,
    stored_vector,
)

from mdstorm.reader import make_batch_reader

PROMISED_RATIO = 2
ROWS, DEAD = 100, 3
PASSES = size(15, 1)


def write_table(folder: Path, files: int) -> None:
    """Write a table with deletion vectors for some rows in each file."""
    actions = []
    for number in range(files):
        start = number * ROWS
        rows = pa.table(
            {
                "id": range(start, start + ROWS),
                "x": [n / 7 for n in range(ROWS)],
                "text": [str(n) for n in range(ROWS)],
            }
        )
        nulls = {"id": 0, "x": 0, "text": 0}
        dead = [0, 5, 7 + number % 90]
        in_log = dead if number % 2 else []
        action = add(folder, f"part-{number:05}.parquet", rows, dead=in_log, nulls=nulls)
        if not in_log:
            action["add"]["deletionVector"] = stored_vector(folder, dead)
        actions.append(action)
    fields = [field("id", "long"), field("x", "double"), field("text", "string")]
    commit(folder, OLD_PROTOCOL, metadata(fields))
    commit(folder, WITH_VECTORS, *actions)


def timed(call: Callable[[], int], expected: int) -> float:
    """Time a call, which must return the expected number."""
    start = time.perf_counter()
    found = call()
    seconds = time.perf_counter() - start
    assert found == expected, (found, expected)
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--files", type=int, default=size(1000, 4))
    files = parser.parse_args().files
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "table"
        write_table(folder, files)

        def list_files() -> int:
            table = DeltaTable(str(folder))
            table.get_add_actions()
            return pa.table(table.deletion_vectors()).num_rows

        def open_table() -> int:
            with make_batch_reader(f"file://{folder}") as reader:
                return len(reader.dataset)

        listed, opened = [], []
        for number in range(PASSES + 1):
            pair = timed(list_files, files), timed(open_table, files * (ROWS - DEAD))
            if number:  # the first pair is a warm-up
                listed.append(pair[0])
                opened.append(pair[1])
    ratio = statistics.median(opened) / statistics.median(listed)
    figures = {
        "files": files,
        "listing_s": statistics.median(listed),
        "opening_s": statistics.median(opened),
        "ratio": ratio,
        "pairs": [round(b / a, 2) for a, b in zip(listed, opened, strict=True)],
    }
    print(json.dumps(figures))
    return 0 if ratio <= PROMISED_RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
